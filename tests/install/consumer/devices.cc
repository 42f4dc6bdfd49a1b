// A program that pkg-config alone tells how to build.
#include <cstdio>

#include "framework/device/device_set.h"

int main() {
  const auto devices = belfry::DeviceSet::Open("cpu:2");
  if (!devices.ok()) return 1;
  std::printf("%d devices\n", devices->size());
}
