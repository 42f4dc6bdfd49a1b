#include "framework/graph/prepared_constants.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "framework/base/alignment.h"
#include "framework/graph/kernel.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

bool Copy(const void* data, void* form) {
  std::memcpy(form, data, 100);
  return true;
}

TEST(PreparedConstants, AreMadeOnceAndOutliveTheirConstants) {
  PreparedConstants prepared;
  EXPECT_EQ(prepared.Get(3, 1, nullptr, 100, Copy), nullptr);
  EXPECT_FALSE(prepared.Has(3, 1));
  const void* form = nullptr;
  {
    const std::vector<char> elements(100, 'x');
    form = prepared.Get(3, 1, elements.data(), 100, Copy);
    ASSERT_NE(form, nullptr);
  }
  EXPECT_TRUE(prepared.Has(3, 1));
  EXPECT_FALSE(prepared.Has(1, 3));
  EXPECT_EQ(prepared.Get(3, 1, nullptr, 100, Copy), form);
  EXPECT_EQ(static_cast<const char*>(form)[99], 'x');
}

TEST(PreparedConstants, AreAlignedAndApart) {
  PreparedConstants prepared;
  const std::vector<char> elements(100, 'x');
  std::vector<char*> forms;
  for (int i = 0; i < 40; ++i) {
    const size_t bytes = i == 20 ? size_t{3} << 20 : 100 + 5000 * static_cast<size_t>(i % 7);
    const auto fill = [&](const void*, void* form) {
      std::memset(form, i, bytes);
      forms.push_back(static_cast<char*>(form));
      return true;
    };
    ASSERT_NE(prepared.Get(i, 0, elements.data(), bytes, fill), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(forms.back()) % kAlignment, 0u);
  }
  for (int i = 0; i < 40; ++i) EXPECT_EQ(forms[i][99], i);
}

TEST(PreparedConstants, AKernelReadsItsInputIfThereIsNoForm) {
  PreparedConstants prepared;
  const std::vector<char> elements(100, 'x');
  const void* const constants[] = {nullptr, elements.data()};
  const Attrs attrs;
  KernelSpec spec{.attrs = attrs, .constants = constants};
  EXPECT_EQ(spec.Prepared(1, 100, Copy), nullptr);
  spec.prepared = &prepared;
  EXPECT_EQ(spec.Prepared(0, 100, Copy), nullptr);
  EXPECT_EQ(spec.Prepared(1, 100, [](const void*, void*) { return false; }), nullptr);
  EXPECT_FALSE(prepared.Has(0, 1));
  EXPECT_NE(spec.Prepared(1, 100, Copy), nullptr);
  EXPECT_TRUE(prepared.Has(0, 1));
}

}  // namespace
}  // namespace belfry
