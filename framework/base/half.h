// The complete types Half and BFloat16, for code that computes with them. Includes Eigen, so keep it out of public
// headers.
#pragma once

#include <Eigen/Core>

#include "framework/base/dtype.h"
