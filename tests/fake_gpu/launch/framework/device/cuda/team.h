// Stands in for framework/device/cuda/team.h.
#pragma once

#include "framework/device/cuda/launch.h"
