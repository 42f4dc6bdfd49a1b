#include "framework/base/version.h"

namespace belfry {

const char kVersion[] = BELFRY_VERSION;
const char kBuild[] = BELFRY_BUILD;

}  // namespace belfry
