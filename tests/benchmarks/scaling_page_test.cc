#include "benchmarks/scaling_page.h"

#include <filesystem>
#include <string>
#include <vector>

#include "framework/io/file.h"
#include "tests/main/testing.h"

namespace belfry::benchmarks {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

// The data that the page's script reads.
Json DataOf(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from), nullptr, false);
}

const Json& Measured() {
  static const Json report = Json::parse(R"({"title": "Scaling of m", "machine": "a CPU", "date": "today", "rows": [
    {"program": "m, one", "devices": 1, "images/s": 1000.0, "speed_up": 1.0, "speed_up_min": 1.0, "speed_up_max": 1.0},
    {"program": "m, strong", "devices": 2, "images/s": 1500.0,
     "speed_up": 1.5, "speed_up_min": 1.25, "speed_up_max": 1.75},
    {"program": "m, apart", "devices": 2, "images/s": 2000.0,
     "speed_up": 2.0, "speed_up_min": 2.0, "speed_up_max": 2.0},
    {"program": "m, strong", "devices": 4, "images/s": 2000.0,
     "speed_up": 2.0, "speed_up_min": 1.0, "speed_up_max": 3.0}]})");
  return report;
}

std::vector<std::string> Labels(const Json& chart) {
  std::vector<std::string> labels;
  for (const Json& line : chart["datasets"]) labels.push_back(line["label"]);
  return labels;
}

TEST(ScalingPage, HasSpeedUpOverDevicesWithSpreadAndIdeal) {
  const Json data = DataOf(ScalingPage(Measured()));
  ASSERT_THAT(data["charts"], SizeIs(1));
  const Json& chart = data["charts"][0];
  EXPECT_EQ(chart["title"], "Speed-up");
  EXPECT_EQ(chart["x"]["title"]["text"], "devices");
  EXPECT_EQ(chart["y"]["title"]["text"], "speed-up over one");
  EXPECT_THAT(Labels(chart), ElementsAre("m, strong", "m, strong", "m, apart", "ideal"));
  EXPECT_EQ(chart["datasets"][0]["data"].dump(),
            R"([[1,1.0,"1, 100% of ideal"],[2,1.5,"1.5 [1.25 .. 1.75], 75% of ideal, 1500 images/s"],)"
            R"([4,2.0,"2 [1 .. 3], 50% of ideal, 2000 images/s"]])");
  EXPECT_TRUE(chart["datasets"][1]["faint"]);
  EXPECT_EQ(chart["datasets"][1]["data"].dump(), "[[2.0,1.25],[2.0,1.75],[2.0,null],[4.0,1.0],[4.0,3.0],[4.0,null]]");
  EXPECT_EQ(chart["datasets"][3]["data"].dump(), R"([[1,1,"1"],[4,4,"4"]])");
  EXPECT_EQ(
      data["table"].dump(),
      R"({"on 2":["1.5 [1.25 .. 1.75], 75% of ideal","2, 100% of ideal"],"on 4":["2 [1 .. 3], 50% of ideal",null]})");
  EXPECT_EQ(data["notes"][0], "Scaling of m (a CPU; today)");
}

TEST(ScalingPage, NeedsSeveralDevices) {
  const Json one = {{"title", "t"}, {"rows", {{{"program", "m, one"}, {"devices", 1}}}}};
  EXPECT_THAT(DataOf(ScalingPage(one))["charts"], SizeIs(0));
}

TEST(ScalingPage, IsWrittenIntoAFolder) {
  const std::string folder = ::testing::TempDir() + "/scaling_page_test";
  std::filesystem::create_directories(folder);
  ASSERT_EQ(WriteScalingPage(Measured(), folder).value(), folder + "/scaling.html");
  EXPECT_THAT(DataOf(io::ReadFile(folder + "/scaling.html").value())["charts"], SizeIs(1));
}

}  // namespace
}  // namespace belfry::benchmarks
