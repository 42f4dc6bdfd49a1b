#include "benchmarks/bfloat16_dot_products.h"

namespace belfry::benchmarks {

bool HasBFloat16DotProducts() { return false; }
float BFloat16DotProducts(float start) { return start; }

}  // namespace belfry::benchmarks
