#include "framework/data/npy.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/data/npy_header_impl.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

// A file of format `major`.0 with this dictionary.
std::string Npy(const std::string& dictionary, const std::string& elements, int major = 1) {
  std::string length(major == 1 ? 2 : 4, '\0');
  length[0] = static_cast<char>(dictionary.size() % 256);
  length[1] = static_cast<char>(dictionary.size() / 256);
  return absl::StrCat(kNpyMagic, std::string(1, static_cast<char>(major)), std::string(1, '\0'), length, dictionary,
                      elements);
}

std::string Dictionary(const std::string& type, const std::string& shape) {
  return absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }\n");
}

class NpyTest : public testing::Test {
 protected:
  std::string Put(const std::string& bytes) {
    folder_.Write("a.npy", bytes);
    return folder_ / "a.npy";
  }
  absl::Status Error(const std::string& bytes) { return ReadNpy(Put(bytes)).status(); }
  Tensor RandomTensor(DType dtype, const Shape& shape) {
    Tensor tensor(dtype, shape);
    std::string bytes = random_.Bytes(tensor.bytes());
    if (dtype == DType::kBool) {
      for (char& byte : bytes) byte &= 1;
    }
    if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
    return tensor;
  }

  FreshRandom random_;
  TemporaryFolder folder_;
};

TEST_F(NpyTest, ReadsBackWhatItWrites) {
  for (const DType dtype :
       {DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kUInt8, DType::kBool}) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{random_.Between(1, 99), 3, 1}, Shape{7, 0, 2}, Shape{2, 1, 3, 1, 5}}) {
      const Tensor tensor = RandomTensor(dtype, shape);
      ASSERT_TRUE(WriteNpy(folder_ / "a.npy", tensor).ok());
      ASSERT_OK_AND_ASSIGN(const auto read, ReadNpy(folder_ / "a.npy"));
      EXPECT_EQ(read.shape(), shape);
      EXPECT_TRUE(SameBits(read, tensor)) << DTypeName(dtype) << " " << shape.ToString() << " " << random_.seed();
    }
  }
}

// The bytes of numpy.save of NumPy 2.4.
TEST_F(NpyTest, WritesTheBytesOfNumpy) {
  const auto header = [](const std::string& text) {
    return absl::StrCat(absl::string_view("\x93NUMPY\x01\x00v\x00", 10), text, std::string(117 - text.size(), ' '),
                        "\n");
  };
  const std::string path = folder_ / "a.npy";
  ASSERT_TRUE(WriteNpy(path, Tensor::Of<int32_t>({1, 2, 3}, {1, 3})).ok());
  EXPECT_EQ(Contents(path), absl::StrCat(header("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 3), }"),
                                         absl::string_view("\1\0\0\0\2\0\0\0\3\0\0\0", 12)));
  ASSERT_TRUE(WriteNpy(path, Tensor::Of<uint8_t>({7, 255})).ok());
  EXPECT_EQ(Contents(path), header("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }") + "\x07\xff");
  ASSERT_TRUE(WriteNpy(path, Tensor::Scalar(true)).ok());
  EXPECT_EQ(Contents(path), header("{'descr': '|b1', 'fortran_order': False, 'shape': (), }") + "\x01");
  ExpectError(WriteNpy(path, Tensor(DType::kBFloat16, {1})), StatusCode::kUnimplemented, path, "bfloat16");
}

TEST_F(NpyTest, ReadsAllVersionsAndSpellings) {
  const std::string two("\1\0\0\0\2\0\0\0", 8);
  for (const int major : {1, 2, 3}) {
    ASSERT_OK_AND_ASSIGN(const auto read, ReadNpy(Put(Npy(Dictionary("<i4", "(2,)"), two, major))));
    EXPECT_EQ(read.ToDoubles(), (std::vector<double>{1, 2}));
  }
  ASSERT_OK_AND_ASSIGN(const auto other,
                       ReadNpy(Put(Npy("{ \"shape\":(2L,1),'fortran_order':False ,\"descr\":'<i4'} \n", two))));
  EXPECT_EQ(other.shape(), (Shape{2, 1}));
  // In one dimension the orders are the same.
  EXPECT_TRUE(ReadNpy(Put(Npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2,)}", two))).ok());
}

TEST_F(NpyTest, RefusesOtherArraysWithTheReason) {
  constexpr StatusCode kOther = StatusCode::kUnimplemented;
  const std::string path = folder_ / "a.npy", eight(8, '\0');
  ExpectError(Error(Npy(Dictionary(">f8", "(1,)"), eight)), kOther, path, "'>f8', big-endian", "newbyteorder");
  ExpectError(Error(Npy(Dictionary("|O", "(1,)"), eight)), kOther, "Python objects");
  ExpectError(Error(Npy(Dictionary("<U2", "(1,)"), eight)), kOther, "'<U2'; expected little-endian numbers");
  ExpectError(Error(Npy(Dictionary("<M8[ns]", "(1,)"), eight)), kOther, "'<M8[ns]'");
  ExpectError(Error(Npy(Dictionary("", "(1,)"), eight)), kOther, "''");
  ExpectError(Error(Npy(Dictionary("<u2", "(4,)"), eight)), kOther, path, "'u2'", "int32", "astype");
  ExpectError(Error(Npy(Dictionary("<c8", "(1,)"), eight)), kOther, "'c8'");
  ExpectError(Error(Npy("{'descr': [('x', '<f4'), ('y', '<f4')], 'fortran_order': False, 'shape': (1,)}", eight)),
              kOther, "structures");
  ExpectError(Error(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1)}", eight)), kOther, "[2,1]",
              "Fortran order", "ascontiguousarray");
  ExpectError(Error(Npy(Dictionary("<f8", "(1,)"), eight, 4)), kOther, "version 4.0");
}

TEST_F(NpyTest, NamesThePlaceOfDamage) {
  constexpr StatusCode kDamaged = StatusCode::kDataLoss;
  const std::string path = folder_ / "a.npy", eight(8, '\0');
  ExpectError(Error(""), kDamaged, path, "not a .npy file");
  ExpectError(Error("PK\3\4 an npz file"), kDamaged, "not a .npy file");
  const auto header = [&](const std::string& dictionary) { return Error(Npy(dictionary, eight)); };
  ExpectError(header("'descr'"), kDamaged, "something else at byte 10", "expected '{'");
  ExpectError(header("{'descr': '<f8', 'fortran_order': 0"), kDamaged, "at byte 44", "True or False");
  ExpectError(header("{'descr': '<f8"), kDamaged, "at byte 20", "a type in quotes");
  ExpectError(header("{'descr': '<f8',"), kDamaged, "its end at byte 26", "a key in quotes");
  ExpectError(header("{'descr': '<f8', 'shape': (1)"), kDamaged, "',' or '}'");
  ExpectError(header("{'descr': '<f8', 'shape': (-1,)}"), kDamaged, "an extent");
  ExpectError(header("{'descr': '<f8', 'shape': (99999999999999999999,)}"), kDamaged, "an extent");
  ExpectError(header("{'descr': '<f8', 'shape': (1,)}"), kDamaged, "no 'fortran_order'");
  ExpectError(header("{'descr': '<f8', 'descr': '<f8'}"), kDamaged, "or one twice");
  ExpectError(header(Dictionary("<f8", "(1,)") + "x"), kDamaged, "the end of the header");
  ExpectError(header(Dictionary("<f8", "(4611686018427387904, 4611686018427387904)")), kDamaged, path, "elements");
  ExpectError(header(Dictionary("<f8", "(2,)")), kDamaged, "holds 8 bytes of elements; expected 16", "'f8' [2]");
  ExpectError(header(Dictionary("<f4", "()")), kDamaged, "expected 4");
  ExpectError(Error(Npy(Dictionary("|b1", "(3,)"), std::string("\0\1\2", 3))), kDamaged, "element 2", "bool");
}

TEST_F(NpyTest, RefusesEveryCutFile) {
  ASSERT_TRUE(WriteNpy(folder_ / "a.npy", RandomTensor(DType::kFloat64, {random_.Between(1, 5)})).ok());
  const std::string whole = Contents(folder_ / "a.npy");
  for (size_t size = 0; size < whole.size(); ++size) {
    ExpectError(Error(whole.substr(0, size)), StatusCode::kDataLoss, folder_ / "a.npy");
  }
  ExpectError(Error(whole + "x"), StatusCode::kDataLoss, "bytes of elements");
}

TEST_F(NpyTest, OpensFilesAsFields) {
  const int64_t count = random_.Between(1, 40);
  const Tensor images = RandomTensor(DType::kUInt8, {count, 5, 4, 3}), flags = RandomTensor(DType::kBool, {count});
  Tensor labels(DType::kInt64, {count});
  for (int64_t i = 0; i < count; ++i) labels.data<int64_t>()[i] = random_.Between(0, 9);
  ASSERT_TRUE(WriteNpy(folder_ / "x.npy", images).ok() && WriteNpy(folder_ / "y.npy", labels).ok() &&
              WriteNpy(folder_ / "z.npy", flags).ok());
  const auto dataset =
      OpenNpy({{"image", folder_ / "x.npy"}, {"label", folder_ / "y.npy", 10}, {"flag", folder_ / "z.npy"}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(FieldsText((*dataset)->fields()), "image uint8 [5,4,3], label int64 [], flag bool []");
  EXPECT_EQ((*dataset)->fields()[1].categories, 10);
  ASSERT_EQ((*dataset)->size(), count);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto example, ReadExample(**dataset, i));
    EXPECT_EQ(std::memcmp(example[0].raw(), images.data<uint8_t>() + i * 60, 60), 0);
    EXPECT_EQ(example[1].scalar<int64_t>(), labels.data<int64_t>()[i]);
    EXPECT_EQ(example[2].scalar<bool>(), flags.data<bool>()[i]);
  }
}

TEST_F(NpyTest, FieldsMustFitEachOther) {
  const std::string x = folder_ / "x.npy", y = folder_ / "y.npy", one = folder_ / "one.npy";
  ASSERT_TRUE(WriteNpy(x, Tensor::Of<float>({1, 2, 3})).ok() && WriteNpy(y, Tensor::Of<int32_t>({0, 7})).ok() &&
              WriteNpy(one, Tensor::Scalar(1.0f)).ok());
  ExpectError(OpenNpy({}).status(), StatusCode::kInvalidArgument, "no field");
  ExpectError(OpenNpy({{"x", x}, {"y", y}}).status(), StatusCode::kInvalidArgument, y, "holds [2]", "expected 3", x);
  ExpectError(OpenNpy({{"x", one}}).status(), StatusCode::kInvalidArgument, one, "holds one number");
  ExpectError(OpenNpy({{"x", x, 3}}).status(), StatusCode::kInvalidArgument, "3 categories");
  ExpectError(OpenNpy({{"x", folder_ / "none.npy"}}).status(), StatusCode::kNotFound, "none.npy");
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenNpy({{"y", y, 7}}));
  EXPECT_TRUE(ReadExample(*dataset, 0).ok());
  ExpectError(ReadExample(*dataset, 1).status(), StatusCode::kDataLoss, y, "example 1 has y 7; expected 0 to 6");
  folder_.Write("bools.npy", Npy(Dictionary("|b1", "(2,)"), "\x01\x02"));
  ASSERT_OK_AND_ASSIGN(const auto bools, OpenNpy({{"b", folder_ / "bools.npy"}}));
  ExpectError(ReadExample(*bools, 1).status(), StatusCode::kDataLoss, "example 1 has a b that is neither 0 nor 1");
}

// A file that is cut while it is open.
TEST_F(NpyTest, ReadingPastTheEndIsAnError) {
  ASSERT_TRUE(WriteNpy(folder_ / "x.npy", Tensor::Of<float>({1, 2, 3})).ok());
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenNpy({{"x", folder_ / "x.npy"}}));
  std::filesystem::resize_file(folder_ / "x.npy", 128 + 5);
  EXPECT_TRUE(ReadExample(*dataset, 0).ok());
  ExpectError(ReadExample(*dataset, 1).status(), StatusCode::kOutOfRange, "x.npy");
}

}  // namespace
}  // namespace belfry::data
