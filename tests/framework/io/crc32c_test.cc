#include "framework/io/crc32c.h"

#include <string>

#include "tests/framework/io/event_testing.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

// Bit by bit, as the standard defines it.
uint32_t SlowCrc32c(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

// RFC 3720, B.4, which lists the four bytes of each result in the order of transmission.
TEST(Crc32c, VectorsOfTheStandard) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising.push_back(static_cast<char>(i));
    falling.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(falling), 0x113FDB5Cu);
  const std::string read_command =
      FromHex("01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000");
  EXPECT_EQ(Crc32c(read_command), 0xD9963A56u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32c, EveryLengthAndAlignment) {
  FreshRandom random;
  const std::string bytes = random.Bytes(80);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= bytes.size(); ++size) {
      EXPECT_EQ(Crc32c(absl::string_view(bytes).substr(begin, size)), SlowCrc32c(bytes.substr(begin, size)));
    }
  }
}

TEST(Crc32c, MaskedIsRotatedAndMoved) {
  const uint32_t crc = Crc32c("abc");
  EXPECT_EQ(MaskedCrc32c("abc"), ((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
}

}  // namespace
}  // namespace belfry::io
