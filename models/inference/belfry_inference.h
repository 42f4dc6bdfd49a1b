/* Runs saved models (docs/saved_models.md): the C interface of libbelfry_inference, for programs in C and in languages
 * that call C. For C++ see belfry_inference.hpp.
 *
 *   char* error = NULL;
 *   belfry_model* model = belfry_model_open("digits.safetensors", 1, &error);
 *   const int64_t one[] = {1, 28, 28, 1};
 *   const int64_t* const extents[] = {one};
 *   belfry_runner* runner = belfry_runner_create(model, extents, &error);
 *   memcpy(belfry_runner_input(runner, 0)->data, pixels, sizeof pixels);
 *   belfry_runner_run(runner, &error);
 *   const float* logits = belfry_runner_output(runner, 0)->data;
 *
 * Errors. A function that takes `error` returns NULL or -1 if it fails. Unless `error` is NULL, *error is then a
 * message that says what was wrong and with which input or file; release it with belfry_free. Otherwise *error is left
 * as it was. NULL where a model, a runner, a path or extents are expected is an error as well; functions without
 * `error` then return 0 or NULL.
 *
 * Threads. A model may be used by several threads at once, a runner by one at a time: make one for each thread.
 *
 * Compatibility. Names, types and numbers stay as they are; later versions only add to them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file that has been read; and the memory for running it with inputs of certain shapes. */
typedef struct belfry_model belfry_model;
typedef struct belfry_runner belfry_runner;

typedef enum belfry_dtype {
  BELFRY_FLOAT32 = 0,
  BELFRY_FLOAT64 = 1,
  BELFRY_FLOAT16 = 2,  /* IEEE 754 binary16 */
  BELFRY_BFLOAT16 = 3, /* the upper half of a float32 */
  BELFRY_INT32 = 4,
  BELFRY_INT64 = 5,
  BELFRY_UINT8 = 6,
  BELFRY_BOOL = 7 /* one byte, 0 or 1 */
} belfry_dtype;

/* An input or an output. */
typedef struct belfry_tensor {
  const char* name; /* UTF-8 */
  belfry_dtype dtype;
  int rank;               /* number of dimensions */
  const int64_t* extents; /* `rank` of them; -1: any, only of a model */
  void* data;             /* elements in row-major order, aligned to 64 bytes; NULL: of a model, or no elements */
  size_t bytes;           /* of data */
} belfry_tensor;

/* The version of the library, such as "0.1.0". */
const char* belfry_inference_version(void);

/* Releases an error message; does nothing with NULL. */
void belfry_free(char* message);

/* Reads the saved model in file `path`. Its runs use up to `threads` threads each, one of which is the caller's; 0: as
 * many as this process may use cores. Fails if the file is missing or damaged, is no saved model, or is of a later
 * version. */
belfry_model* belfry_model_open(const char* path, int threads, char** error);

/* Does nothing with NULL. All runners of the model must have been destroyed. */
void belfry_model_close(belfry_model* model);

/* The inputs and outputs, with names that the model's author gave. NULL if there is no such index. They live as long as
 * the model. */
int belfry_model_input_count(const belfry_model* model);
int belfry_model_output_count(const belfry_model* model);
const belfry_tensor* belfry_model_input(const belfry_model* model, int index);
const belfry_tensor* belfry_model_output(const belfry_model* model, int index);

/* Prepares runs with inputs of these shapes: extents[i] are those of input i, as many as its rank. Takes milliseconds
 * to seconds; runs then allocate nothing. A runner holds the values in between. The weights, in the form in which they
 * are read fastest, which may take more memory than in the file, are shared by the runners of one shape. Fails if a
 * shape does not fit; the message names the input. */
belfry_runner* belfry_runner_create(const belfry_model* model, const int64_t* const* extents, char** error);

/* Does nothing with NULL. */
void belfry_runner_destroy(belfry_runner* runner);

/* The inputs, whose data are to be written before a run and stay as they are written; and the outputs, whose data are
 * those of the last run. All extents are known. NULL if there is no such index. They live as long as the runner. */
const belfry_tensor* belfry_runner_input(const belfry_runner* runner, int index);
const belfry_tensor* belfry_runner_output(const belfry_runner* runner, int index);

/* Computes the outputs from the inputs. Returns 0, or -1 if it fails; then the outputs are unspecified. */
int belfry_runner_run(belfry_runner* runner, char** error);

#ifdef __cplusplus
}
#endif
