// The complete types Half and BFloat16, for code that computes with them. Not for public headers: it includes Eigen.
#pragma once

#include <Eigen/Core>

#include "framework/base/dtype.h"
