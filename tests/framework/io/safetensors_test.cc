#include "framework/io/safetensors.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/io/checksum.h"
#include "framework/io/file.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

using absl::StatusCode;

// A tensor of arbitrary bytes; bools are 0 or 1.
Tensor RandomTensor(FreshRandom& random, DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  std::string bytes = random.Bytes(tensor.bytes());
  if (dtype == DType::kBool) {
    for (char& byte : bytes) byte &= 1;
  }
  if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

void ExpectSame(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(SameBits(a, b));
}

TEST(Checksum, IsXxh3) {
  // Checksums of no bytes and of one: github.com/Cyan4973/xxHash, tests/sanity_test_vectors.h.
  EXPECT_EQ(Checksum("", 0), 0x2D06800538D394C2u);
  EXPECT_EQ(ChecksumText("", 0), "2d06800538d394c2");
  EXPECT_EQ(DigestText(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(SumOfChecksums("", 1, 0, 0), Checksum("", 0));
}

TEST(Checksum, OfAFileIsThatOfItsBytes) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  for (const size_t bytes : {0, 1, 1 << 20, (1 << 20) + 1, 3'000'000}) {
    std::string text(bytes, ' ');
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * i >> 7);
    ASSERT_EQ(WriteFile(path, text), absl::OkStatus());
    ASSERT_OK_AND_ASSIGN(const InputFile file, InputFile::Open(path));
    EXPECT_EQ(FileDigest(file).value(), DigestText(text)) << bytes;
  }
}

TEST(Checksum, SumDependsOnTheOrderOfRows) {
  const auto sum = [](absl::string_view text, size_t rows, uint64_t first) {
    return SumOfChecksums(text.data(), rows, text.size() / rows, first);
  };
  EXPECT_EQ(sum("abcdef", 3, 5), sum("abcd", 2, 5) + sum("ef", 1, 7));
  EXPECT_NE(sum("abcdef", 3, 5), sum("cdabef", 3, 5));
}

TEST(Safetensors, EveryByteIsWhereTheLayoutSays) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  const Tensor bytes = Tensor::Of<uint8_t>({1, 2, 3}), floats = Tensor::Of<float>({1.0f, -2.0f}, {1, 2});
  const Tensor scalar = Tensor::Scalar(int64_t{0x0102030405060708});
  ASSERT_EQ(WriteSafetensors(path, {{"b", bytes}, {"a/w", floats}, {"step", scalar}}, {{"kind", "a \"test\""}}),
            absl::OkStatus());
  const auto sum = [](const Tensor& tensor) { return ChecksumText(tensor.raw(), tensor.bytes()); };
  const auto header_with = [&](absl::string_view checksum) {
    std::string header = absl::StrCat(
        R"({"__metadata__":{"belfry.xxh3":")", checksum, R"(","belfry.xxh3.version":"1","belfry.xxh3:a/w":")",
        sum(floats), R"(","belfry.xxh3:b":")", sum(bytes), R"(","belfry.xxh3:step":")", sum(scalar),
        R"(","kind":"a \"test\""},)", R"("step":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)",
        R"("a/w":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)",
        R"("b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})");
    while ((8 + header.size()) % 64 != 0) header += ' ';
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size() & 0xff);
    length[1] = static_cast<char>(header.size() >> 8);
    return length + header;
  };
  const std::string blank = header_with("0000000000000000");
  const char data[] = "\x08\x07\x06\x05\x04\x03\x02\x01\x00\x00\x80\x3f\x00\x00\x00\xc0\x01\x02\x03";
  EXPECT_EQ(Contents(path), header_with(ChecksumText(blank.data(), blank.size())) + std::string(data, 19));
}

TEST(Safetensors, AllTypesAndShapesComeBack) {
  FreshRandom random;
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors;
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : {Shape(), Shape{0}, Shape{3}, Shape{2, 0, 3}, Shape{1, 2, 3}, Shape{7, 1, 11, 2, 3}}) {
      tensors.push_back({absl::StrCat(DTypeName(dtype), shape.ToString()), RandomTensor(random, dtype, shape)});
    }
  }
  const Metadata metadata = {{"", "empty key"},
                             {"empty value", ""},
                             {"unicode", "\u00e9\u4e16\U0001f514"},
                             {"controls", std::string("\0\n\"\\", 4)}};
  ASSERT_EQ(WriteSafetensors(folder / "file", tensors, metadata), absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(folder / "file"));
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const NamedTensor& tensor : tensors) {
    SCOPED_TRACE(tensor.name);
    const TensorInfo* info = file.Find(tensor.name);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->begin % SizeOf(tensor.value.dtype()), 0u);
    ExpectSame(ValueOf(file.Read(*info)), tensor.value);
  }
  EXPECT_EQ(file.Find("none"), nullptr);
}

TEST(Safetensors, AFileOfNothingAndNamesOfAnyKind) {
  const TemporaryFolder folder;
  ASSERT_EQ(WriteSafetensors(folder / "none", {}), absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const auto none, SafetensorsFile::Open(folder / "none"));
  EXPECT_TRUE(none.tensors().empty());
  EXPECT_TRUE(none.metadata().empty());
  const Tensor one = Tensor::Scalar(1.0f);
  ASSERT_EQ(WriteSafetensors(folder / "names", {{"", one}, {"a b\n\"\u00e9", one}, {std::string("\0", 1), one}}),
            absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const auto names, SafetensorsFile::Open(folder / "names"));
  EXPECT_EQ(ValueOf(names.ReadAll()).size(), 3u);
}

TEST(Safetensors, TheOrderOfTheTensorsDoesNotMatter) {
  const TemporaryFolder folder;
  const NamedTensor a{"a", Tensor::Scalar(1.0f)}, b{"b", Tensor::Scalar(true)}, c{"c", Tensor::Scalar(2.0)};
  ASSERT_EQ(WriteSafetensors(folder / "1", {a, b, c}), absl::OkStatus());
  ASSERT_EQ(WriteSafetensors(folder / "2", {c, b, a}), absl::OkStatus());
  EXPECT_EQ(Contents(folder / "1"), Contents(folder / "2"));
}

TEST(Safetensors, WhatCannotBeWrittenIsAnErrorAndMakesNoFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  const Tensor one = Tensor::Scalar(1.0f);
  const auto expect = [&](const absl::Status& status, const std::string& text) {
    ExpectError(status, StatusCode::kInvalidArgument, path, text);
    EXPECT_FALSE(std::filesystem::exists(path));
  };
  expect(WriteSafetensors(path, {{"w", one}, {"v", one}, {"w", Tensor::Scalar(true)}}), "two tensors are named 'w'");
  expect(WriteSafetensors(path, {{"__metadata__", one}}), "__metadata__");
  expect(WriteSafetensors(path, {{"w\xff", one}}), "UTF-8");
  expect(WriteSafetensors(path, {{"w", one}}, {{"key", "\xc3"}}), "UTF-8");
  expect(WriteSafetensors(path, {{"w", one}}, {{"belfry.xxh3:w", "0"}}), "belfry.xxh3:w");
  expect(WriteSafetensors(path, {{"w", Tensor::WithoutData(DType::kFloat32, {2})}}), "'w' has a shape but no data");
  ExpectError(WriteSafetensors(folder / "none/file", {{"w", one}}), StatusCode::kNotFound, "none/file");
}

}  // namespace
}  // namespace belfry::io
