/* Serves a saved model (cifar10 --export=FILE writes one) through pipes: for each batch it reads the bytes of the
 * inputs from standard input, one input after the other, and writes those of the outputs to standard output. serve
 * cifar.safetensors 8 < images > logits     # batches of 8 */
#include <belfry_inference.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 64

static void Fail(const char* message) {
  fprintf(stderr, "serve: %s\n", message);
  exit(1);
}

int main(int argc, char** argv) {
  char* error = NULL;
  if (argc < 2) Fail("usage: serve MODEL [BATCH [LENGTH]]");
  belfry_model* model = belfry_model_open(argv[1], 0, &error);
  if (!model) Fail(error);
  static int64_t extents[MOST][MOST];
  const int64_t* shapes[MOST];
  for (int i = 0; i < belfry_model_input_count(model) && i < MOST; ++i) {
    const belfry_tensor* input = belfry_model_input(model, i);
    for (int k = 0; k < input->rank && k < MOST; ++k) { /* an open extent is that of the batch, or a length */
      const char* argument = k == 0 && argc > 2 ? argv[2] : k > 0 && argc > 3 ? argv[3] : "1";
      extents[i][k] = input->extents[k] < 0 ? atoll(argument) : input->extents[k];
      if (extents[i][k] < 1) Fail("BATCH and LENGTH must be positive");
    }
    shapes[i] = extents[i];
  }
  belfry_runner* runner = belfry_runner_create(model, shapes, &error);
  if (!runner) Fail(error);
  for (const belfry_tensor* t;; fflush(stdout)) {
    for (int i = 0; (t = belfry_runner_input(runner, i)); ++i)
      if (fread(t->data, 1, t->bytes, stdin) < t->bytes) return 0;
    if (belfry_runner_run(runner, &error) != 0) Fail(error);
    for (int i = 0; (t = belfry_runner_output(runner, i)); ++i) fwrite(t->data, 1, t->bytes, stdout);
  }
}
