// Starts with a static libbelfry, and says its version.
#include <cstdio>

#include "framework/base/version.h"

int main() { std::printf("Belfry %s\n", belfry::kBuild); }
