// The folders in which a machine may keep NVIDIA's libraries.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "framework/base/launcher.h"

namespace belfry {

// The folders that BELFRY_CUDA_PATH names, separated by colons, as far as they exist: each of them, and in it lib64,
// lib, */lib and nvidia/*/lib, so that it may name a folder of libraries, a CUDA installation or a Python
// site-packages.
std::vector<std::filesystem::path> ChosenCudaFolders(const Environment& environment);

// Other folders that may hold NVIDIA's libraries and that the loader does not search on its own, as far as they exist:
//   1. lib64 and lib of $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, /usr/local/cuda-* and /opt/cuda;
//   2. nvidia/*/lib in the site-packages of $VIRTUAL_ENV, $CONDA_PREFIX, the first python3 in $PATH (with pyenv, all of
//      its versions), ~/.local, /usr/local and /usr; and lib of $CONDA_PREFIX.
// No program is started to find them.
std::vector<std::filesystem::path> CudaFolders(const Environment& environment);

// The folders as one line for users: "/usr/local/cuda/lib64, /opt/venv/lib/python3.11/site-packages/nvidia/*/lib".
std::string DescribeFolders(const std::vector<std::filesystem::path>& folders);

}  // namespace belfry
