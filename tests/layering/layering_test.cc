
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/layering/check_tree.h"
#include "tests/layering/literals.h"
#include "tests/main/testing.h"

namespace belfry::layering {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Layering, TheProjectObeysItsRules) { EXPECT_THAT(CheckTree(BELFRY_SOURCE_DIR), IsEmpty()); }

TEST(Layering, ReadsTheProject) {
  EXPECT_TRUE(fs::exists(fs::path(BELFRY_SOURCE_DIR) / "framework/base/shape.cc"))
      << "the test above looked at the wrong folder";
}

// A source tree in a temporary folder, valid until a test adds to it.
class Tree : public testing::Test {
 protected:
  Tree() {
    Write("framework/base/a.h", "// A.\n#pragma once\n#include <string>\n#include \"absl/status/status.h\"\n");
    Write("framework/base/a.cc", "#include \"framework/base/a.h\"\n#include <Eigen/Core>\n");
    Write("framework/base/CMakeLists.txt", "belfry_library(base SOURCES a.cc)\n");
    Write("framework/graph/g.h", "#pragma once\n#include \"framework/base/a.h\"\n");
    Write("framework/device/d.h", "#pragma once\n#include \"framework/base/a.h\"\n");
    Write("ops/onednn/wrap.h", "#pragma once\n#include <dnnl.hpp>\n");
    Write("ops/onednn/wrap.cc", "#include \"ops/onednn/wrap.h\"\n");
    Write("ops/o.h", "#pragma once\n#include \"framework/graph/g.h\"\n");
    Write("ops/CMakeLists.txt", "belfry_library(ops SOURCES onednn/wrap.cc)\n");
    Write("tests/t.h", "#pragma once\n#include \"ops/o.h\"\n#include <Eigen/Core>\n");
  }

  void Write(const std::string& path, const std::string& text) { root_.Write(path, text); }
  void WriteHeader(const std::string& path, const std::string& text) {
    Write(path, absl::StrCat("#pragma once\n", text));
  }

  std::vector<std::string> Check() const { return CheckTree(root_.path()); }

  const TemporaryFolder root_;
};

TEST_F(Tree, IsSound) { EXPECT_THAT(Check(), IsEmpty()); }

TEST_F(Tree, ACommentThatNamesNothingFails) {
  Write("framework/base/a.cc",
        "#include \"framework/base/a.h\"\nclass ARealName;  // as OldName did\n"
        "// ARealName, ARealNames, InvalidArgument, InAString, FlashAttention, CPU, https://x.org/InAnAddress\n"
        "const char* a = \"InAString, // NoComment\"; /* NewName,\nOtherName */ auto e = InvalidArgumentError();\n");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("framework/base/a.cc:2: a comment names OldName"),
                                   StartsWith("framework/base/a.cc:4: a comment names NewName"),
                                   StartsWith("framework/base/a.cc:5: a comment names OtherName")));
}

TEST_F(Tree, UpwardIncludeFails) {
  WriteHeader("framework/graph/bad.h", "\n  #  include \"framework/runtime/session.h\"  // why not\n");
  EXPECT_THAT(Check(), ElementsAre(AllOf(StartsWith("framework/graph/bad.h:3: includes framework/runtime/session.h"),
                                         HasSubstr("framework/runtime stands above framework/graph"))));
}

TEST_F(Tree, FrameworkIncludesNothingAboveIt) {
  WriteHeader("framework/runtime/bad.h",
              "#include \"ops/o.h\"\n#include <optim/o.h>\n#include \"models/o.h\"\n#include \"trainers/o.h\"\n");
  EXPECT_EQ(Check().size(), 4);
}

TEST_F(Tree, OrderAboveTheFramework) {
  WriteHeader("ops/bad.h", "#include \"optim/o.h\"\n");
  WriteHeader("optim/bad.h", "#include \"models/o.h\"\n");
  WriteHeader("models/bad.h", "#include \"trainers/o.h\"\n");
  WriteHeader("trainers/bad.h", "#include \"tests/o.h\"\n");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("models/bad.h:2:"), StartsWith("ops/bad.h:2:"),
                                   StartsWith("optim/bad.h:2:"), StartsWith("trainers/bad.h:2:")));
}

TEST_F(Tree, OrderInsideModels) {
  WriteHeader("models/towers/fine.h", "#include \"models/layers/o.h\"\n");
  WriteHeader("models/networks/fine.h", "#include \"models/layers/o.h\"\n#include \"models/towers/o.h\"\n");
  EXPECT_THAT(Check(), IsEmpty());
  WriteHeader("models/layers/bad.h", "#include \"models/towers/o.h\"\n");
  WriteHeader("models/towers/bad.h", "#include \"models/networks/o.h\"\n");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("models/layers/bad.h:2: includes models/towers/o.h"),
                                   AllOf(StartsWith("models/towers/bad.h:2: includes models/networks/o.h"),
                                         HasSubstr("models/networks stands above models/towers"))));
}

TEST_F(Tree, OrderInsideOps) {
  WriteHeader("ops/module/m_impl.h", "#include \"ops/fam/f_impl.h\"\n#include \"ops/o.h\"\n");
  WriteHeader("ops/fam/f_impl.h",
              "#include \"ops/onednn/wrap.h\"\n#include \"ops/common/c.h\"\n#include \"ops/o.h\"\n");
  WriteHeader("ops/common/c.h", "#include \"ops/simd/s.h\"\n#include \"ops/o.h\"\n");
  WriteHeader("ops/cudnn/l.h", "#include \"ops/gpu/g.h\"\n#include \"ops/common/c.h\"\n");
  EXPECT_THAT(Check(), IsEmpty());
  WriteHeader("ops/common/bad_impl.h", "#include \"ops/onednn/wrap.h\"\n");
  WriteHeader("ops/cudnn/bad_impl.h", "#include \"ops/fam/f_impl.h\"\n");
  WriteHeader("ops/fam/bad.h", "#include \"ops/builtin_ops.h\"\n#include \"ops/module/gpu_kernels.h\"\n");
  WriteHeader("ops/bad.h", "#include \"ops/common/c.h\"\n");
  WriteHeader("ops/simd/bad.h", "#include \"ops/common/c.h\"\n");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("ops/bad.h:2: includes ops/common/c.h"),
                                   AllOf(StartsWith("ops/common/bad_impl.h:2: includes ops/onednn/wrap.h"),
                                         HasSubstr("ops/onednn stands above ops/common")),
                                   StartsWith("ops/cudnn/bad_impl.h:2: includes ops/fam/f_impl.h"),
                                   AllOf(StartsWith("ops/fam/bad.h:2: includes ops/builtin_ops.h"),
                                         HasSubstr("ops/lists stands above ops/families")),
                                   StartsWith("ops/fam/bad.h:3: includes ops/module/gpu_kernels.h"),
                                   StartsWith("ops/simd/bad.h:2: includes ops/common/c.h")));
}

TEST_F(Tree, FamiliesIncludeEachOtherOnlyWhereStated) {
  WriteHeader("ops/convolution/fine.h", "#include \"ops/activation/functors.h\"\n");
  EXPECT_THAT(Check(), IsEmpty());
  WriteHeader("ops/activation/bad.h", "#include \"ops/convolution/fine.h\"\n");
  EXPECT_THAT(Check(), ElementsAre(AllOf(StartsWith("ops/activation/bad.h:2: includes ops/convolution/fine.h"),
                                         HasSubstr("ops/activation does not know ops/convolution"))));
}

TEST_F(Tree, UpwardLinkInsideOpsFails) {
  Write("ops/common/CMakeLists.txt", "belfry_library(belfry_ops_common LINK belfry_onednn)\n");
  Write("ops/onednn/CMakeLists.txt", "belfry_library(belfry_onednn SOURCES wrap.cc LINK belfry_ops_common)\n");
  EXPECT_THAT(Check(), ElementsAre(AllOf(StartsWith("ops/common/CMakeLists.txt: belfry_ops_common links belfry_onednn"),
                                         HasSubstr("ops/onednn stands above ops/common"))));
}

TEST_F(Tree, GraphAndDeviceDoNotIncludeEachOther) {
  WriteHeader("framework/graph/bad.h", "#include \"framework/device/d.h\"\n");
  WriteHeader("framework/device/cpu/bad.h", "#include \"framework/graph/g.h\"\n");
  EXPECT_THAT(Check(),
              ElementsAre(StartsWith("framework/device/cpu/bad.h:2:"), StartsWith("framework/graph/bad.h:2:")));
}

TEST_F(Tree, WallClockOutsideOfDatesFails) {
  const std::string text = "const absl::Time now = absl::Now();\nauto b = std::chrono::system_clock::now();\n";
  WriteHeader("framework/base/bad.h", text);
  Write("framework/io/summary_writer.cc", text);
  Write("framework/io/CMakeLists.txt", "belfry_library(belfry_io SOURCES summary_writer.cc)\n");
  EXPECT_THAT(Check(), ElementsAre(AllOf(StartsWith("framework/base/bad.h:2: "), HasSubstr("SteadyNow")),
                                   AllOf(StartsWith("framework/base/bad.h:3: "), HasSubstr("system_clock"))));
}

TEST_F(Tree, RelativeIncludeFails) {
  WriteHeader("framework/base/bad.h", "#include \"../graph/g.h\"\n");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("..")));
}

TEST_F(Tree, ConditionalCompilationFailsOutsideCuda) {
  const std::string text = "#pragma once\n# ifdef X\n#endif\n#if Y\n#endif\n#ifndef Z\nint z;\n#endif\n";
  Write("framework/device/cuda/fine.h", text);
  Write("framework/device/c_header.h", "#pragma once\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
  Write("framework/device/bad.h", text);
  EXPECT_THAT(Check(),
              ElementsAre(HasSubstr("bad.h:2: #ifdef"), HasSubstr("bad.h:4: #if "), HasSubstr("bad.h:6: #ifnd")));
}

TEST_F(Tree, MacroGuardIsFine) {
  WriteHeader("framework/base/macros.h", "#ifndef RETURN_IF\n#define RETURN_IF(x) x\n#endif\n");
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(Tree, HeaderWithoutPragmaOnceFails) {
  Write("ops/bad.h", "int x();\n");
  EXPECT_THAT(Check(), ElementsAre(AllOf(StartsWith("ops/bad.h"), HasSubstr("#pragma once"))));
}

TEST_F(Tree, HeavyOrInternalIncludeInAPublicHeaderFails) {
  WriteHeader("framework/base/half.h", "#include <Eigen/Core>\n");
  WriteHeader("ops/fam/bad.h",
              "#include <Eigen/Core>\n#include <unsupported/Eigen/CXX11/Tensor>\n#include \"dnnl.hpp\"\n"
              "#include <oneapi/dnnl/dnnl.h>\n#include \"framework/base/half.h\"\n#include \"ops/onednn/wrap.h\"\n"
              "#include \"ops/fam/fine_impl.h\"\n");
  WriteHeader("ops/fam/fine_impl.h", "#include <Eigen/Core>\n");
  const auto breaches = Check();
  EXPECT_EQ(breaches.size(), 7);
  EXPECT_THAT(breaches, testing::Each(StartsWith("ops/fam/bad.h:")));
}

TEST_F(Tree, NameOfAnOpInFrameworkFails) {
  WriteHeader("ops/names.h", "OpDef a{.name = \"LRN\"}; auto b = UpdateOp<T>(\"Assign\", {\"CPU\"});\n");
  WriteHeader("framework/graph/bad.h",
              "// \"Assign\" is fine here,\n/* and \"LRN\"\n */ int x = Is('\"') + Is(\"Assign\") + Is(\"LRN\");\n"
              "int y = Is(\"AssignGrad\");\n");
  WriteHeader("framework/graph/fine.h", "auto x = {\"CPU\", \"an Assign\", \"assign\", \"\\\"Assign\", \"\"};\n");
  WriteHeader("optim/fine.h", "auto x = \"Assign\";\n");
  EXPECT_THAT(Check(), ElementsAre(AllOf(StartsWith("framework/graph/bad.h:4: "), HasSubstr("\"Assign\"")),
                                   AllOf(StartsWith("framework/graph/bad.h:4: "), HasSubstr("\"LRN\"")),
                                   AllOf(StartsWith("framework/graph/bad.h:5: "), HasSubstr("\"AssignGrad\""))));
}

// The names that the check above looks for are those of this project's ops.
TEST(OpNames, AreGatheredFromTheProject) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(BELFRY_SOURCE_DIR) / "ops")) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream in(entry.path());
    AddOpNames(std::string(std::istreambuf_iterator<char>(in), {}), names);
  }
  for (const char* name : {"Add", "ApplyMomentum", "BatchNormReluGrad", "Const", "Conv2D", "L2Loss", "LRN", "NoOp",
                           "OnesLike", "ReluGrad", "SoftmaxGrad", "Variable", "WarmUpRate"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const char* name : {"CPU", "GPU", "T", "SAME", "gradients"}) EXPECT_FALSE(names.contains(name)) << name;
}

TEST(FindLiterals, SeesQuotesAndComments) {
  const auto literals = FindLiterals("a(\"x\\\"y\"); // \"no\"\nb(64'000, '\"', .name = \"Z\", R\"(\"no\")\"); \"\"");
  ASSERT_EQ(literals.size(), 3u);
  EXPECT_EQ(literals[0].text, "x\\\"y");
  EXPECT_EQ(literals[1].text, "Z");
  EXPECT_EQ(literals[1].line, 2u);
  EXPECT_TRUE(literals[1].named);
  EXPECT_EQ(literals[2].text, "");
}

TEST_F(Tree, AnEngineThatKnowsAnotherFails) {
  for (const char* name : {"engine_impl", "taps_impl", "direct_impl", "loops_impl"}) {
    WriteHeader(absl::StrCat("ops/convolution/engines/", name, ".h"), "");
  }
  WriteHeader("ops/convolution/engines/direct_kernel_impl.h",
              "#include \"ops/convolution/engines/engine_impl.h\"\n#include \"ops/convolution/engines/taps_impl.h\"\n"
              "#include \"ops/convolution/engines/direct_impl.h\"\n");
  EXPECT_THAT(Check(), IsEmpty());
  WriteHeader("ops/convolution/engines/direct_kernel_impl.h", "#include \"ops/convolution/engines/loops_impl.h\"\n");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("includes ops/convolution/engines/loops_impl.h, but no engine")));
}

TEST_F(Tree, AFlagOfTwoProgramsFails) {
  WriteHeader("trainers/a.h",
              "flags.Add(\"rate\", &rate, \"R\"); flags.Add(\n    \"steps\", &steps, Range(1), \"S\");\n");
  WriteHeader("trainers/b.h", "metrics.Add(\"steps\", 3); flags.Add(\"rate\", &other, \"R\");\n");
  EXPECT_THAT(Check(), ElementsAre("trainers/b.h: adds the flag --rate, as trainers/a.h does; share the row"));
}

TEST_F(Tree, LongFileFails) {
  std::string text;
  for (int i = 1; i < 500; ++i) absl::StrAppend(&text, "\n");
  WriteHeader("ops/long.h", text);
  EXPECT_THAT(Check(), IsEmpty());
  WriteHeader("ops/long.h", text + "int last;");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("ops/long.h: has 501 lines")));
}

TEST_F(Tree, UnlistedSourceFails) {
  Write("ops/lost.cc", "");
  Write("ops/cpu/lost.cu", "");
  Write("ops/CMakeLists.txt", "belfry_library(ops SOURCES onednn/wrap.cc not_lost.cc)  # lost.cc\n");
  EXPECT_THAT(Check(),
              ElementsAre(StartsWith("ops/cpu/lost.cu: is in no CMakeLists.txt"), StartsWith("ops/lost.cc: ")));
  Write("ops/CMakeLists.txt", "belfry_library(ops\n  SOURCES\n    onednn/wrap.cc\n    cpu/lost.cu lost.cc)\n");
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(Tree, UpwardLinkFails) {
  Write("framework/graph/CMakeLists.txt", "belfry_library(belfry_graph SOURCES g.cc\n  LINK belfry_base belfry_ops)\n");
  Write("ops/CMakeLists.txt", "belfry_library(belfry_ops SOURCES onednn/wrap.cc LINK belfry_graph absl::strings)\n");
  EXPECT_THAT(Check(), ElementsAre(AllOf(StartsWith("framework/graph/CMakeLists.txt: belfry_graph links belfry_ops"),
                                         HasSubstr("ops/lists stands above framework/graph"))));
}

TEST_F(Tree, LongFunctionFails) {
  std::string body;
  for (int i = 0; i < 59; ++i) absl::StrAppend(&body, "    f();\n");
  const std::string begin = "\nclass C {\n public:\n  void F(int a,\n         int b) {\n", end = "  }\n};\n";
  WriteHeader("ops/long.h", begin + body.substr(9) + end);
  EXPECT_THAT(Check(), IsEmpty());
  WriteHeader("ops/long.h", begin + body + end);
  EXPECT_THAT(Check(), ElementsAre(AllOf(StartsWith("ops/long.h:5: void F(int a, has 61 lines"))));
}

TEST_F(Tree, LargeClassFails) {
  std::string members =
      "  using T = int;\n  int F(int a);\n  std::map<int, std::function<int(int)>> m;\n  int a = 1, b;\n";
  for (int i = 0; i < 22; ++i) absl::StrAppend(&members, "  int m", i, "_;\n");
  WriteHeader("ops/large.h", "\nstruct S {\n" + members + "};\n");
  EXPECT_THAT(Check(), IsEmpty());
  WriteHeader("ops/large.h", "\nstruct S {\n" + members + "  int more ABSL_GUARDED_BY(mutex);\n};\n");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("ops/large.h:3: struct S { has 26 data members")));
}

TEST_F(Tree, CrowdedFolderFails) {
  for (int i = 0; i < 34; ++i) WriteHeader(absl::StrCat("ops/", i, ".h"), "");
  EXPECT_THAT(Check(), IsEmpty());  // with o.h
  WriteHeader("ops/one_more.h", "");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("ops: holds 36 sources, more than 35")));
}

TEST_F(Tree, FolderOutsideTheLayersFails) {
  WriteHeader("framework/misc/m.h", "");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("framework/misc/m.h: lies in none")));
}

}  // namespace
}  // namespace belfry::layering
