#include "framework/base/version.h"

namespace belfry {

const char kVersion[] = BELFRY_VERSION;

}  // namespace belfry
