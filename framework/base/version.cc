#include "framework/base/version.h"

namespace belfry {

const char kBuild[] = BELFRY_BUILD;

}  // namespace belfry
