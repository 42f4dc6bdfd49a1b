/* Continues a text, with the likeliest token each time, by a model that predicts token by token
 * (language_model --export=FILE --export_step writes one): prints COUNT numbers of tokens.
 *
 *   generate speaker.safetensors CONTEXT COUNT TOKEN...
 */
#include <belfry_inference.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1024 /* inputs: of 511 layers */

static int Fail(const char* message) {
  fprintf(stderr, "generate: %s\n", message);
  exit(1);
}

static int Likeliest(const belfry_tensor* logits) { /* [1, 1, vocabulary] */
  const float* values = (const float*)logits->data;
  int best = 0;
  for (int i = 1; i < logits->extents[2]; ++i)
    if (values[i] > values[best]) best = i;
  return best;
}

int main(int argc, char** argv) {
  char* error = NULL;
  belfry_model* model = argc < 5 ? NULL : belfry_model_open(argv[1], 0, &error);
  if (!model) Fail(error ? error : "usage: generate MODEL CONTEXT COUNT TOKEN...");
  const int64_t context = atoll(argv[2]), count = atoll(argv[3]), prompt = argc - 4;
  if (context < 1 || count < 1 || prompt + count - 1 > context) Fail("CONTEXT must hold the prompt and COUNT tokens");
  /* Inputs: tokens [1, 1], past [1], and keys and values [1, CONTEXT, ...] of each layer. */
  static int64_t extents[MOST][4];
  const int64_t* shapes[MOST];
  const int inputs = belfry_model_input_count(model);
  if (inputs < 4 || inputs > MOST || inputs != belfry_model_output_count(model) + 1)
    Fail("the model does not predict token by token; save it with --export_step");
  for (int i = 0; i < inputs; shapes[i] = extents[i], ++i)
    for (int k = 0; k < 4 && k < belfry_model_input(model, i)->rank; ++k)
      extents[i][k] = k == 0 || i == 0 ? 1 : k == 1 ? context : belfry_model_input(model, i)->extents[k];
  belfry_runner* runner = belfry_runner_create(model, shapes, &error);
  if (!runner) Fail(error);
  int next = 0;
  for (int32_t past = 0; past < prompt + count - 1; ++past) {
    *(int32_t*)belfry_runner_input(runner, 0)->data = past < prompt ? atoi(argv[4 + past]) : next;
    *(int32_t*)belfry_runner_input(runner, 1)->data = past;
    if (belfry_runner_run(runner, &error) != 0) Fail(error);
    for (int i = 2; i < inputs; ++i) { /* the keys and values of the token, for those after it */
      const belfry_tensor* made = belfry_runner_output(runner, i - 1);
      memcpy((char*)belfry_runner_input(runner, i)->data + past * made->bytes, made->data, made->bytes);
    }
    next = Likeliest(belfry_runner_output(runner, 0)); /* float32, whatever the model computes in */
    if (past + 1 >= prompt) printf("%d\n", next);
  }
  return 0;
}
