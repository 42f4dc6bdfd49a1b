// Safetensors files that are damaged, or were never valid.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/io/safetensors.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

std::string MakeFile(const std::string& json, const std::string& data = "") {
  std::string length(8, '\0');
  const uint64_t bytes = json.size();
  std::memcpy(length.data(), &bytes, 8);
  return length + json + data;
}

class SafetensorsDamageTest : public testing::Test {
 protected:
  // Reads a whole file with these bytes.
  absl::Status Read(const std::string& bytes) {
    folder_.Write("file", bytes);
    absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
    return file.ok() ? file->ReadAll().status() : file.status();
  }
  void ExpectDamaged(const std::string& bytes, const std::string& text) {
    ExpectError(Read(bytes), StatusCode::kDataLoss, path_, text);
  }
  // The bytes of a small file written by us.
  std::string Ours() {
    EXPECT_EQ(WriteSafetensors(path_, {{"w", Tensor::Of<float>({1, 2, 3})}, {"flags", Tensor::Of<bool>({true, false})}},
                               {{"note", "x"}}),
              absl::OkStatus());
    return Contents(path_);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "file";
};

TEST_F(SafetensorsDamageTest, EveryByteThatIsChangedIsFoundAndNamed) {
  const std::string whole = Ours();
  const size_t data = whole.size() - 14;
  ASSERT_EQ(Read(whole), absl::OkStatus());
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int mask : {0x01, 0x10, 0x20, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      SCOPED_TRACE(absl::StrCat("byte ", at, " changed by ", mask));
      const char* where = at < data ? "header" : at < data + 12 ? "tensor 'w' is damaged" : "tensor 'flags' is damaged";
      const bool in_header = at < data;
      ExpectError(in_header ? ParseSafetensorsHeader(path_, bytes, bytes.size()).status() : Read(bytes),
                  StatusCode::kDataLoss, path_, where);
    }
  }
}

TEST_F(SafetensorsDamageTest, EveryLengthButItsOwnIsFound) {
  const std::string whole = Ours();
  for (size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    ExpectDamaged(whole.substr(0, length), "header");
  }
  ExpectDamaged(whole + '\0', "extra bytes at its end");
}

TEST_F(SafetensorsDamageTest, AFileByOthersIsReadWithoutChecksums) {
  const std::string floats("\0\0\x80\x3f\0\0\0\x40", 8);
  EXPECT_EQ(Read(MakeFile("{}")), absl::OkStatus());
  EXPECT_EQ(Read(MakeFile("{\"__metadata__\":{}}  \n")), absl::OkStatus());
  const std::string json =
      R"( "b" : {"shape":[1], "data_offsets":[4,8], "dtype":"F32"}, "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}, )"
      R"("none":{"dtype":"I8","shape":[0,9],"data_offsets":[8,8]}, "__metadata__": {"format":"pt"} } )";
  folder_.Write("file", MakeFile("{" + json, floats));
  ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(path_));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_EQ(ValueOf(file.Read(*file.Find("a"))).scalar<float>(), 1.0f);
  EXPECT_EQ(ValueOf(file.Read(*file.Find("b"))).span<float>()[0], 2.0f);
  ExpectError(file.Read(*file.Find("none")).status(), StatusCode::kUnimplemented, path_, "'none'", "I8");
}

// The reference implementation reads all of these.
TEST_F(SafetensorsDamageTest, WhatOthersAddDoesNotMatter) {
  const std::string floats("\0\0\x80\x3f", 4);
  for (
      const char* json : {
          R"({"__metadata__":null,"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
          " \t\n{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          R"({"t":{"quantised":null,"dtype":"F32","by":[1,[-2,"x"],{"shape":[7]}],"shape":[1],"data_offsets":[0,4],"f":0.5}})",
      }) {
    SCOPED_TRACE(json);
    folder_.Write("file", MakeFile(json, floats));
    ASSERT_OK_AND_ASSIGN(const auto tensors, ReadSafetensors(path_));
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors.front().value.span<float>()[0], 1.0f);
  }
}

TEST_F(SafetensorsDamageTest, ATensorOfAnotherTypeLeavesTheRestReadable) {
  for (const char* type : {"I8", "F8_E4M3", "U16", "F4"}) {
    const std::string bytes = type == std::string("U16") ? "ab" : "a";
    const std::string shape = type == std::string("F4") ? "2" : "1";
    folder_.Write("file",
                  MakeFile(absl::StrCat(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"q":{"dtype":")", type,
                                        R"(","shape":[)", shape, R"(],"data_offsets":[4,)", 4 + bytes.size(), "]}}"),
                           std::string("\0\0\x80\x3f", 4) + bytes));
    ASSERT_OK_AND_ASSIGN(const auto tensors, ReadSafetensors(path_));
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors.front().name, "t");
  }
}

TEST_F(SafetensorsDamageTest, WhatIsNoHeaderIsAnError) {
  const std::string t = R"("t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const struct {
    std::string json, text;
  } kCases[] = {
      {"", "does not begin with '{'"},
      {" {}", "extra bytes at its end"},
      {" \n", "does not begin with '{'"},
      {"[]", "does not begin with '{'"},
      {"{", "is not valid JSON at byte"},
      {"{}}", "is not valid JSON at byte"},
      {std::string("{}\0", 3), "is not valid JSON at byte 3"},
      {"{\"a\xff\":{}}", "is not valid JSON at byte"},
      {"{" + t + "," + t + "}", "two entries for 't'"},
      {R"({"__metadata__":{},"__metadata__":{}})", "two entries for '__metadata__'"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", "two entries for 'k' in __metadata__"},
      {R"({"__metadata__":{"k":1}})", "a number for 'k' in __metadata__"},
      {R"({"__metadata__":{"k":{}}})", "an object where none is expected"},
      {R"({"__metadata__":[]})", "an array for '__metadata__'"},
      {R"({"t":null})", "null for 't'"},
      {R"({"t":{}})", "no dtype for tensor 't'"},
      {R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", "no shape for tensor 't'"},
      {R"({"t":{"dtype":"F32","shape":[1]}})", "no data_offsets for tensor 't'"},
      {R"({"t":{"dtype":"F32","dtype":"F32"}})", "dtype twice for tensor 't'"},
      {R"({"t":{"shape":[],"shape":[]}})", "shape twice for tensor 't'"},
      {R"({"t":{"more":[]}})", "no dtype for tensor 't'"},
      {R"({"t":{"more":true}})", "no dtype for tensor 't'"},
      {R"({"t":{"more":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}})", "no dtype for tensor 't'"},
      {R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "do not fill whole bytes"},
      {R"({"t":{"dtype":null}})", "null for 'dtype' of tensor 't'"},
      {R"({"__metadata__":{"k":null}})", "null for 'k' in __metadata__"},
      {R"({"t":{"dtype":1}})", "a number for 'dtype' of tensor 't'"},
      {R"({"t":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", "unknown dtype 'F31'"},
      {R"({"t":{"dtype":"F32","shape":[-1]}})", "the negative number -1 for 'shape' of tensor 't'"},
      {R"({"t":{"dtype":"F32","shape":[1.5]}})", "the number 1.5 for 'shape' of tensor 't'"},
      {R"({"t":{"dtype":"F32","shape":[1e400]}})", "is not valid JSON"},
      {R"({"t":{"dtype":"F32","shape":[99999999999999999999]}})", "the number 99999999999999999999"},
      {R"({"t":{"dtype":"F32","shape":[[1]]}})", "an array for 'shape' of tensor 't'"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", "3 data_offsets for tensor 't'"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1 data_offsets for tensor 't'"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "of 4 bytes at offsets [4, 0)"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
       "tensor 't', F32 [2], of 8 bytes at offsets [0, 4)"},
      {R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", "more than 2^59 elements"},
      {R"({"t":{"dtype":"F64","shape":[18446744073709551615],"data_offsets":[0,4]}})", "more than 2^59 elements"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", "tensor 't' at offset 1"},
      {"{" + t + R"(,"u":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       "before it, tensor 't', ends at 4: they overlap"},
      {"{" + t + R"(,"u":{"dtype":"U8","shape":[2],"data_offsets":[5,7]}})", "ends at 4: there is a gap"},
      {"{}", "extra bytes at its end"},
      {R"({"t":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", "cut short"},
      {R"({"__metadata__":{"belfry.xxh3:t":"0"},)" + t + "}", "should drop such keys"},
      {"{\"" + std::string(300, 'n') + "\":1}", std::string(200, 'n') + "...'"},
      {R"({"t":{"shape":[)" + std::string(130, '[') + "}}", "an array for 'shape'"},
  };
  for (const auto& [json, text] : kCases) {
    SCOPED_TRACE(json);
    ExpectDamaged(MakeFile(json, "data"), text);
  }
  std::string axes = "0";
  for (int i = 0; i < 64; ++i) axes += ",0";
  ExpectDamaged(MakeFile(absl::StrCat(R"({"t":{"dtype":"F32","shape":[)", axes, R"(],"data_offsets":[0,0]}})")),
                "more than 64 numbers");
}

TEST_F(SafetensorsDamageTest, LengthsThatCannotBeAreErrors) {
  ExpectDamaged("", "0 bytes");
  ExpectDamaged(std::string(7, '\0'), "7 bytes");
  ExpectDamaged(std::string(8, '\xff'), "more than 100000000");
  std::string bytes = MakeFile("{}");
  bytes[0] = 3;
  ExpectDamaged(bytes, "claims a header of 3 bytes, but only 2 follow");
  ExpectError(Read(std::string("PK\x03\x04\0\0\x08\x08"
                               " and more",
                               17)),
              StatusCode::kInvalidArgument, path_, "is a zip archive, such as torch.save writes");
  ExpectError(ParseSafetensorsHeader("name", MakeFile("{}"), 4).status(), StatusCode::kDataLoss, "name");
  ExpectError(ParseSafetensorsHeader("name", "12", 100).status(), StatusCode::kDataLoss, "name");
}

TEST_F(SafetensorsDamageTest, ABoolIsZeroOrOne) {
  const std::string json = R"({"t":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_EQ(Read(MakeFile(json, std::string("\0\1", 2))), absl::OkStatus());
  ExpectDamaged(MakeFile(json, std::string("\0\2", 2)), "tensor 't' is BOOL");
}

TEST_F(SafetensorsDamageTest, AnyBytesAreSurvived) {
  FreshRandom random;
  const std::string seeds[] = {
      Ours(),
      MakeFile(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"k":"v"}})", "12345678")};
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = seeds[i % 2];
    for (int64_t n = random.Between(1, 4); n > 0 && !bytes.empty(); --n) {
      const int64_t at = random.Between(0, static_cast<int64_t>(bytes.size()) - 1);
      switch (random.Between(0, 3)) {
        case 0: bytes[at] = static_cast<char>(random.Between(0, 255)); break;
        case 1: bytes.erase(at, random.Between(1, 8)); break;
        case 2: bytes.insert(at, bytes.substr(random.Between(0, static_cast<int64_t>(bytes.size()) - 1), 9)); break;
        default: bytes[at] = "{}[]\",:019"[random.Between(0, 9)]; break;
      }
    }
    uint64_t length = 0;
    if (bytes.size() >= 8) std::memcpy(&length, bytes.data(), 8);
    const auto header = ParseSafetensorsHeader("file", bytes, bytes.size());
    if (!header.ok()) {
      EXPECT_THAT(header.status().message(), HasSubstr("file"));
      continue;
    }
    ++read;
    EXPECT_EQ(header->data, 8 + length);
    uint64_t end = 0;
    for (const TensorInfo& info : header->tensors) {
      EXPECT_EQ(info.begin, end);
      end = info.end;
    }
    EXPECT_EQ(header->data + end, bytes.size());
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace belfry::io
