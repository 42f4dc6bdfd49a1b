/* Serves a saved model (cifar10 --export=FILE writes one) through pipes: for each batch it reads the bytes of the
 * inputs from standard input, one after the other, and writes those of the outputs to standard output.
 *
 *   serve cifar.safetensors 8 < images > logits
 */
#include <belfry_inference.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 64

static int Fail(const char* message) {
  fprintf(stderr, "serve: %s\n", message);
  exit(1);
}

int main(int argc, char** argv) {
  char* error = NULL;
  belfry_model* model = argc < 2 ? NULL : belfry_model_open(argv[1], 0, &error);
  if (!model) Fail(error ? error : "usage: serve MODEL [BATCH [LENGTH]]");
  static int64_t extents[MOST][MOST];
  const int64_t* shapes[MOST];
  for (int i = 0; i < belfry_model_input_count(model); ++i) {
    const belfry_tensor* input = belfry_model_input(model, i);
    if (i == MOST || input->rank > MOST) Fail("the model has too many inputs");
    for (int k = 0; k < input->rank; ++k) { /* an open extent is that of the batch, or a length */
      const char* argument = k == 0 && argc > 2 ? argv[2] : k > 0 && argc > 3 ? argv[3] : "1";
      extents[i][k] = input->extents[k] < 0 ? atoll(argument) : input->extents[k];
      if (extents[i][k] < 1) Fail("BATCH and LENGTH must be positive");
    }
    shapes[i] = extents[i];
  }
  belfry_runner* runner = belfry_runner_create(model, shapes, &error);
  if (!runner) Fail(error);
  for (size_t done, all = 0;; all = 0) {
    const belfry_tensor* t;
    for (int i = 0; (t = belfry_runner_input(runner, i)); ++i, all += done) {
      done = fread(t->data, 1, t->bytes, stdin);
      if (done < t->bytes) return all + done == 0 ? 0 : Fail("the last batch is incomplete");
    }
    if (belfry_runner_run(runner, &error) != 0) Fail(error);
    for (int i = 0; (t = belfry_runner_output(runner, i)); ++i)
      if (fwrite(t->data, 1, t->bytes, stdout) < t->bytes) Fail("the outputs cannot be written");
    if (fflush(stdout) != 0) Fail("the outputs cannot be written");
  }
}
