#include "framework/base/library/cuda_libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "framework/base/library/cuda_folders.h"
#include "framework/base/library/needed.h"
#include "framework/base/module.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

// Folders laid out as a virtual environment with NVIDIA's packages, and as a CUDA installation. CMake puts a stub of
// the libraries into each.
const fs::path kStubs = BELFRY_STUBS;
const fs::path kVenv = kStubs / "venv", kCuda = kStubs / "cuda";

Environment With(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

class FoldersTest : public testing::Test {
 protected:
  fs::path Make(const std::string& name) {
    fs::create_directories(root_ / name);
    return root_ / name;
  }
  const TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(FoldersTest, ChosenOnesMayBeAnyLevel) {
  const fs::path libraries = Make("plain"), installation = Make("cuda/lib64"), cublas = Make("site/nvidia/cu13/lib"),
                 cudnn = Make("site/nvidia/cudnn/lib");
  const std::string path = (root_ / "plain").string() + ":" + (root_ / "cuda").string() +
                           "::" + (root_ / "site").string() + ":" + (root_ / "absent").string() + ":relative";
  EXPECT_THAT(ChosenCudaFolders(With({{"BELFRY_CUDA_PATH", path}})),
              ElementsAre(libraries, root_ / "cuda", installation, root_ / "site", cudnn, cublas));
  EXPECT_THAT(ChosenCudaFolders(With({{"BELFRY_CUDA_PATH", (root_ / "site" / "nvidia").string()}})),
              ElementsAre(root_ / "site" / "nvidia", cudnn, cublas));
  EXPECT_TRUE(ChosenCudaFolders(With({})).empty());
}

TEST_F(FoldersTest, InstallationsComeBeforePython) {
  const fs::path home = Make("cuda/lib64"), venv = Make("venv/lib/python3.12/site-packages/nvidia/cudnn/lib");
  const std::vector<fs::path> folders = CudaFolders(
      With({{"CUDA_HOME", (root_ / "cuda").string()}, {"VIRTUAL_ENV", (root_ / "venv").string()}, {"HOME", "/"}}));
  ASSERT_FALSE(folders.empty());
  EXPECT_EQ(folders[0], home);
  EXPECT_THAT(folders, Contains(venv));
}

TEST_F(FoldersTest, PythonOfPathWithItsEnvironmentAndItsBase) {
  const fs::path base = Make("base/lib/python3.11/site-packages/nvidia/nccl/lib");
  const fs::path venv = Make("venv/lib/python3.11/site-packages/nvidia/cudnn/lib");
  Make("base/bin"), Make("venv/bin"), Make("empty");
  std::ofstream(root_ / "base/bin/python3.11");
  fs::create_symlink("python3.11", root_ / "base/bin/python3");
  fs::create_symlink(root_ / "base/bin/python3", root_ / "venv/bin/python3");
  const std::string path = (root_ / "empty").string() + ":" + (root_ / "venv/bin").string();
  EXPECT_THAT(CudaFolders(With({{"PATH", path}})), IsSupersetOf({venv, base}));
}

TEST_F(FoldersTest, CondaPyenvAndTheUsersOwnPackages) {
  const fs::path conda = Make("conda/lib"),
                 pyenv = Make("pyenv/versions/3.12.1/lib/python3.12/site-packages/nvidia/a/lib"),
                 user = Make("home/.local/lib/python3.11/site-packages/nvidia/b/lib");
  Make("pyenv/shims");
  std::ofstream(root_ / "pyenv/shims/python3");
  EXPECT_THAT(CudaFolders(With({{"CONDA_PREFIX", (root_ / "conda").string()},
                                {"PATH", (root_ / "pyenv/shims").string()},
                                {"HOME", (root_ / "home").string()}})),
              IsSupersetOf({conda, pyenv, user}));
}

TEST_F(FoldersTest, AreDescribedInFewWords) {
  EXPECT_EQ(DescribeFolders({"/usr/local/cuda/lib64", "/v/nvidia/cudnn/lib", "/v/nvidia/nccl/lib", "/w/nvidia/a/lib"}),
            "/usr/local/cuda/lib64, /v/nvidia/*/lib, /w/nvidia/*/lib");
}

TEST(NeededLibraries, AreReadFromTheFile) {
  ASSERT_OK_AND_ASSIGN(const auto needed, NeededLibraries(fs::path(BELFRY_NEEDS_STUB)));
  EXPECT_THAT(needed, AllOf(Contains("libnvstub.so.7"), Contains("libc.so.6")));
}

TEST(NeededLibraries, OfDamagedFilesAreAnErrorOrFew) {
  EXPECT_EQ(NeededLibraries("/nowhere").status().code(), absl::StatusCode::kNotFound);
  const std::string bytes = Contents(BELFRY_NEEDS_STUB);
  const TemporaryFolder folder;
  const fs::path damaged = folder / "damaged.so";
  for (size_t size : {size_t{0}, size_t{3}, size_t{40}, size_t{64}, size_t{100}, size_t{500}, bytes.size() / 2}) {
    folder.Write("damaged.so", bytes.substr(0, size));
    const auto needed = NeededLibraries(damaged);
    if (size < 64) {
      EXPECT_EQ(needed.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  // Each byte of the headers in turn.
  for (size_t at = 16; at < std::min<size_t>(bytes.size(), 700); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(0xFF);
    folder.Write("damaged.so", changed);
    NeededLibraries(damaged).IgnoreError();
  }
}

// One test, because a library that a process has loaded stays.
TEST(CudaLibraries, AreFoundInAPythonEnvironment) {
  unsetenv("BELFRY_CUDA_PATH"), unsetenv("VIRTUAL_ENV");
  EXPECT_THAT(
      Module::Load("needs_stub").status(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr(
                         "libbelfry_needs_stub.so cannot be loaded: there is no libnvstub.so.7 where the loader looks"),
                     HasSubstr("or set BELFRY_CUDA_PATH to a folder with it"))));
  setenv("VIRTUAL_ENV", kVenv.c_str(), 1);
  const absl::StatusOr<Module> module = Module::Load("needs_stub");
  unsetenv("VIRTUAL_ENV");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(*module->Find<int>("number"), 7);
}

TEST(CudaLibraries, ChosenOnesComeFirst) {
  setenv("VIRTUAL_ENV", kVenv.c_str(), 1), setenv("BELFRY_CUDA_PATH", kCuda.c_str(), 1);
  const absl::StatusOr<void*> library = OpenCudaLibrary("libnvother.so.1", "13");
  unsetenv("VIRTUAL_ENV"), unsetenv("BELFRY_CUDA_PATH");
  ASSERT_TRUE(library.ok()) << library.status();
  void* const number = dlsym(*library, "belfry_stub_number");
  ASSERT_NE(number, nullptr);
  EXPECT_EQ(reinterpret_cast<int (*)()>(number)(), 2);
  EXPECT_EQ(fs::path(FileOf(number)).filename(), "libnvother.so.1");
  EXPECT_THAT(FileOf(number), HasSubstr("cuda/lib64"));
}

TEST(CudaLibraries, MissingOnesNameTheirPackages) {
  const auto message = [](const char* soname, const char* cuda) {
    return std::string(OpenCudaLibrary(soname, cuda).status().message());
  };
  EXPECT_THAT(message("libcublasLt.so.99", "99"),
              HasSubstr("apt-get install libcublas-99-* from NVIDIA's repository, or "
                        "pip install nvidia-cublas, or set BELFRY_CUDA_PATH"));
  EXPECT_THAT(message("libnccl.so.99", "12"), HasSubstr("pip install nvidia-nccl-cu12"));
  EXPECT_THAT(message("libcudnn.so.99", "13"),
              AllOf(HasSubstr("libcudnn9-cuda-13"), HasSubstr("pip install nvidia-cudnn-cu13")));
  EXPECT_THAT(message("libnvrtc.so.99", "12"), HasSubstr("pip install nvidia-cuda-nvrtc-cu12"));
}

TEST(CudaLibraries, DamagedOnesAreReportedInTheLoadersWords) {
  const TemporaryFolder folder;
  folder.Write("libnvdamaged.so.1", "no library");
  setenv("BELFRY_CUDA_PATH", folder.path().c_str(), 1);
  const absl::Status status = OpenCudaLibrary("libnvdamaged.so.1", "13").status();
  unsetenv("BELFRY_CUDA_PATH");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("libnvdamaged.so.1"), Not(HasSubstr("apt-get")))));
}

}  // namespace
}  // namespace belfry
