// A program of others that runs saved models.
#include <cstdio>

#include "belfry_inference.h"

int main() {
  std::printf("Belfry %s\n", belfry_inference_version());
  return 0;
}
