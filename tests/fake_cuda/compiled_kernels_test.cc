// Kernels that NVRTC compiles, on disk.
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/library/cuda_libraries.h"
#include "framework/device/device_set.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

std::string Source(int which) {
  return absl::StrCat(
      "struct Table { float* to; };\nextern \"C\" __global__ void belfry_kernel(const __grid_constant__ ",
      "Table table) { table.to[threadIdx.x] = ", which, "; }");
}

class CompiledKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::SetCards(2);
    const char* const former = std::getenv("BELFRY_CACHE_DIR");
    former_ = former == nullptr ? "" : former;
    setenv("BELFRY_CACHE_DIR", folder_.path().c_str(), 1);
    Reopen();
  }
  void TearDown() override {
    devices_ = DeviceSet();
    EXPECT_EQ(fake_cuda::Handles(), 0) << "libraries are unloaded";
    if (former_.empty()) {
      unsetenv("BELFRY_CACHE_DIR");
    } else {
      setenv("BELFRY_CACHE_DIR", former_.c_str(), 1);
    }
    fake_cuda::SetCards(2);
  }
  // Devices that know no kernel yet, as in a new process.
  void Reopen() {
    devices_ = DeviceSet();
    ASSERT_OK_AND_ASSIGN(devices_, DeviceSet::Open("gpu:2"));
  }
  absl::Status Compile(int which, int gpu = 0) {
    const auto kernel = devices_.device(1 + gpu).CompileKernel(Source(which));
    if (!kernel.ok()) return kernel.status();
    auto stream = devices_.device(1 + gpu).NewStream(StreamKind::kCompute);
    if (!stream.ok()) return stream.status();
    const void* const argument = nullptr;
    const absl::Status launched = (*kernel)->Launch(**stream, 3, &argument, sizeof(argument));
    return launched.ok() ? (*stream)->Synchronize() : launched;
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_ / "kernels", error)) files.push_back(entry.path());
    return files;
  }
  static void Write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  // A file that is written again is another one.
  static ino_t NumberOf(const fs::path& path) {
    struct stat facts = {};
    stat(path.c_str(), &facts);
    return facts.st_ino;
  }

  const TemporaryFolder folder_;
  std::string former_;
  DeviceSet devices_;
};

TEST_F(CompiledKernelsTest, AreKept) {
  ASSERT_EQ(Compile(1), absl::OkStatus());
  ASSERT_EQ(Files().size(), 1u);
  const ino_t number = NumberOf(Files()[0]);
  EXPECT_EQ(Compile(1), absl::OkStatus());
  EXPECT_EQ(Compile(1, 1), absl::OkStatus());
  Reopen();
  EXPECT_EQ(Compile(1), absl::OkStatus());
  ASSERT_EQ(Files().size(), 1u);
  EXPECT_EQ(NumberOf(Files()[0]), number);
  EXPECT_EQ(Compile(2), absl::OkStatus());
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(CompiledKernelsTest, DamagedFilesAreReplaced) {
  ASSERT_EQ(Compile(1), absl::OkStatus());
  ASSERT_EQ(Files().size(), 1u);
  const fs::path file = Files()[0];
  const std::string whole = Contents(file);
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  for (const std::string& damaged : {std::string(), whole.substr(0, 8), whole.substr(0, whole.size() / 2),
                                     std::string(whole.size(), '\xa5'), flipped, whole + "x"}) {
    Write(file, damaged);
    Reopen();
    EXPECT_EQ(Compile(1), absl::OkStatus());
    EXPECT_TRUE(Contents(file) == whole) << damaged.size();
  }
  EXPECT_EQ(Files().size(), 1u) << "nothing else is left behind";
}

TEST_F(CompiledKernelsTest, FilesThatADriverRefusesAreReplaced) {
  ASSERT_EQ(Compile(1), absl::OkStatus());
  const ino_t number = NumberOf(Files().at(0));
  Reopen();
  fake_cuda::FailNext("cudaLibraryLoadData", cudaErrorInvalidKernelImage);
  EXPECT_EQ(Compile(1), absl::OkStatus());
  EXPECT_NE(NumberOf(Files().at(0)), number);
}

TEST_F(CompiledKernelsTest, NeedNoFolder) {
  folder_.Write("kernels", "a file where the folder would be");
  EXPECT_EQ(Compile(1), absl::OkStatus());
  setenv("BELFRY_CACHE_DIR", "/proc/belfry", 1);
  EXPECT_EQ(Compile(2), absl::OkStatus());
  setenv("BELFRY_CACHE_DIR", "", 1);
  EXPECT_EQ(Compile(3), absl::OkStatus());
}

TEST_F(CompiledKernelsTest, AFolderInPlaceOfAFileIsNoError) {
  ASSERT_EQ(Compile(1), absl::OkStatus());
  const fs::path file = Files().at(0);
  fs::remove(file);
  fs::create_directories(file / "within");
  Reopen();
  EXPECT_EQ(Compile(1), absl::OkStatus());
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(CompiledKernelsTest, ErrorsAreTheCompilers) {
  const auto kernel = devices_.device(1).CompileKernel("no C++");
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.status().message().find("belfry_kernel.cu("), absl::string_view::npos) << kernel.status();
}

// Writers and readers of the same files at the same time, while somebody shortens them.
TEST_F(CompiledKernelsTest, SeveralAtOnce) {
  for (int round = 0; round < 4; ++round) {
    Reopen();
    std::vector<absl::Status> statuses(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int which = 0; which < 3; ++which) statuses[t].Update(Compile(which, t % 2));
      });
    }
    for (const fs::path& file : Files()) {
      std::error_code error;
      fs::resize_file(file, 100, error);
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) EXPECT_EQ(status, absl::OkStatus());
  }
  Reopen();
  for (int which = 0; which < 3; ++which) EXPECT_EQ(Compile(which), absl::OkStatus());
  EXPECT_EQ(Files().size(), 3u);
}

// In a process of its own, since NVRTC is loaded once.
TEST(NvrtcDeathTest, NoGpuIsOpenedWithoutIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder folder;
  const std::string other_library = FileOf(reinterpret_cast<const void*>(&std::fopen));
  fs::create_symlink(other_library, folder / absl::StrCat("libnvrtc.so.", CUDART_VERSION / 1000));
  const auto open = [&] {
    setenv("BELFRY_CUDA_PATH", folder.path().c_str(), 1);
    const absl::Status status = DeviceSet::Open("gpu:1").status();
    std::cerr << status.message() << "\n";
    std::exit(status.ok() ? 1 : 0);
  };
  EXPECT_EXIT(open(), testing::ExitedWithCode(0),
              "Cannot open CUDA device 0 .Fake H200.: libnvrtc.so.* has no function");
}

}  // namespace
}  // namespace belfry
