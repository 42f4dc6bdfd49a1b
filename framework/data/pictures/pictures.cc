#include "framework/data/pictures/pictures.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/cores.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/data/pictures/picture_cache.h"
#include "framework/data/pictures/picture_view.h"
#include "framework/io/file.h"
#include "framework/io/pictures/picture.h"

namespace belfry::data {
namespace {

namespace fs = std::filesystem;

// A field of pictures: the file of each example.
struct PictureColumn {
  std::vector<std::string> paths;
  bool mask = false;
};

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// The most that a JPEG may be made smaller while it is decoded, so that `box` still has the pixels of an example.
int ShrinkFor(const PictureBox& box, const PictureOptions& options) {
  for (const int shrink : {8, 4, 2}) {
    if (box.bottom - box.top >= static_cast<double>(shrink * options.height) &&
        box.right - box.left >= static_cast<double>(shrink * options.width)) {
      return shrink;
    }
  }
  return 1;
}

// The place of `box`, of the whole picture, in one that was made smaller while it was decoded. A pixel is the mean of
// shrink x shrink stored ones, to which libjpeg adds up to a whole number at the right and at the bottom; in an upright
// picture these may be at the left and at the top.
PictureBox Shrunk(const PictureBox& box, const io::PictureHeader& header, int shrink) {
  const double by = 1.0 / shrink;
  const auto added = [&](int64_t extent) {
    return std::ceil(static_cast<double>(extent) * by) - static_cast<double>(extent) * by;
  };
  const int turned = header.orientation;
  const double down = turned == 3 || turned == 4 || turned >= 7 ? added(header.height) : 0;
  const double across = turned == 2 || turned == 3 || turned == 6 || turned == 7 ? added(header.width) : 0;
  return {box.top * by + down, box.left * by + across, box.bottom * by + down, box.right * by + across};
}

Field PictureField(const std::string& name, const PictureOptions& options, bool mask) {
  return {.name = name, .dtype = DType::kUInt8, .shape = {options.height, options.width, mask ? 1 : options.channels}};
}

// Picture columns come first among the fields, then those of `others`.
class PictureDataset final : public Dataset {
 public:
  PictureDataset(std::vector<PictureColumn> columns, std::vector<Field> fields, std::unique_ptr<Dataset> others,
                 std::vector<int64_t> rows, const PictureOptions& options)
      : columns_(std::make_shared<const std::vector<PictureColumn>>(std::move(columns))),
        fields_(std::move(fields)),
        others_(std::move(others)),
        rows_(std::move(rows)),
        options_(options) {}

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  absl::Span<const Field> fields() const override { return fields_; }
  absl::Status Read(int64_t index, const Example& example) const override {
    return ReadAs(index, std::nullopt, example);
  }
  bool varies() const override {
    const ColourJitter& jitter = options_.jitter;
    return options_.random_crop.has_value() ||
           std::max({options_.rotation, jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue}) > 0;
  }
  absl::Status ReadVaried(int64_t index, const Variation& variation, const Example& example) const override {
    return ReadAs(index, variation, example);
  }

  // Reads the files of an example, and returns an error of that; sets `broken` to the first error of decoding them.
  absl::Status CheckPictures(int64_t index, absl::Status& broken) const {
    for (const PictureColumn& column : *columns_) {
      const std::string& path = column.paths[rows_[index]];
      ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(path));
      const io::DecodeOptions how{.channels = column.mask ? 1 : 3, .numbers = column.mask};
      broken.Update(InFile(path, io::DecodePicture(bytes, how).status()));
    }
    return absl::OkStatus();
  }
  // The same examples, with other options.
  std::unique_ptr<PictureDataset> With(const PictureOptions& options) const {
    auto other = std::make_unique<PictureDataset>(*this);
    other->options_ = options;
    for (size_t i = 0; i < columns_->size(); ++i) {
      other->fields_[i] = PictureField(fields_[i].name, options, (*columns_)[i].mask);
    }
    return other;
  }
  // Keeps decoded pictures from now on, also of what With makes.
  absl::Status MakeCache() {
    const auto files = static_cast<int64_t>(columns_->size() * columns_->front().paths.size());
    ASSIGN_OR_RETURN(cache_, PictureCache::Make(options_.cache, files));
    return absl::OkStatus();
  }
  // Leaves only the rows of these examples.
  void Keep(const std::vector<char>& kept) {
    std::vector<int64_t> rows;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (kept[i] != 0) rows.push_back(rows_[i]);
    }
    rows_ = std::move(rows);
  }

 private:
  absl::Status ReadAs(int64_t index, const std::optional<Variation>& variation, const Example& example) const {
    int64_t height = 0, width = 0;  // of the first picture
    PictureView view{};
    const std::vector<PictureColumn>& columns = *columns_;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string& path = columns[i].paths[rows_[index]];
      Source source;
      RETURN_IF_ERROR(InFile(path, Find(i, index, source)));
      if (i == 0) {
        height = source.height;
        width = source.width;
        // The row counts broken files, too, so that leaving them out does not change the others.
        view = DrawView(options_, height, width, rows_[index], variation);
      } else if (source.height != height || source.width != width) {
        return InFile(path, absl::InvalidArgumentError(absl::StrCat("has ", source.height, "x", source.width,
                                                                    " pixels, but ", columns[0].paths[rows_[index]],
                                                                    " of the same example has ", height, "x", width)));
      }
      RETURN_IF_ERROR(InFile(path, Show(source, view, columns[i], example.field<uint8_t>(i))));
    }
    if (others_ == nullptr) return absl::OkStatus();
    std::vector<std::byte*> places;
    for (size_t i = columns.size(); i < fields_.size(); ++i) places.push_back(example.raw(i));
    return others_->Read(rows_[index], Example(places));
  }

  // A picture that is in the cache, or else in a file.
  struct Source {
    int64_t height = 0, width = 0;
    int64_t number = 0;  // in the cache
    std::optional<io::Pixels> cached = {};
    std::string bytes = {};
    io::PictureHeader header = {};
  };
  int Channels(const PictureColumn& column) const { return column.mask ? 1 : options_.channels; }
  absl::Status Find(size_t column, int64_t index, Source& source) const {
    const std::vector<std::string>& paths = (*columns_)[column].paths;
    source.number = static_cast<int64_t>(column * paths.size()) + rows_[index];
    if (cache_ != nullptr) source.cached = cache_->Find(source.number);
    // Another view of the same files may have kept colours where this one wants grey.
    if (source.cached.has_value() && source.cached->channels != Channels((*columns_)[column])) source.cached.reset();
    if (source.cached.has_value()) {
      source.height = source.cached->height;
      source.width = source.cached->width;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(source.bytes, io::ReadFile(paths[rows_[index]]));
    ASSIGN_OR_RETURN(source.header, io::ReadPictureHeader(source.bytes));
    source.height = source.header.height;
    source.width = source.header.width;
    return absl::OkStatus();
  }

  // Masks are not made smaller while they are decoded, which would mix their values.
  absl::Status Show(const Source& source, const PictureView& view, const PictureColumn& column, uint8_t* to) const {
    const int channels = Channels(column);
    io::Picture decoded;
    io::Pixels picture;
    PictureBox box = view.box;
    if (source.cached.has_value()) {
      picture = *source.cached;
    } else {
      const int shrink = column.mask || cache_ != nullptr ? 1 : ShrinkFor(view.box, options_);
      ASSIGN_OR_RETURN(decoded, io::DecodePicture(source.bytes, source.header,
                                                  {.channels = channels, .shrink = shrink, .numbers = column.mask}));
      picture = decoded;
      if (cache_ != nullptr) cache_->Add(source.number, picture);
      if (source.header.format == io::PictureHeader::Format::kJpeg) box = Shrunk(view.box, source.header, shrink);
    }
    ResizeScratch scratch;
    const Resampling how = column.mask ? Resampling::kNearest : Resampling::kBilinear;
    ResizePicture(picture, box, options_.height, options_.width, how, to, scratch);
    if (view.turns) {
      TurnPicture(view.cosine, view.sine, options_.height, options_.width, channels, how, to, scratch);
    }
    if (!column.mask) ChangeColours(view, options_.height * options_.width, channels, to);
    return absl::OkStatus();
  }

  std::shared_ptr<const std::vector<PictureColumn>> columns_;
  std::vector<Field> fields_;
  std::shared_ptr<const Dataset> others_;  // by row; null if there are no other fields
  std::vector<int64_t> rows_;              // by example
  PictureOptions options_;
  std::shared_ptr<PictureCache> cache_;  // null if none are kept
};

absl::Status CheckOptions(const PictureOptions& options) {
  constexpr int64_t kMostPixels = 16384;
  const auto& crop = options.random_crop;
  const auto in = [](double value, double low, double high) { return value >= low && value <= high; };
  if (options.height < 1 || options.width < 1 || options.height > kMostPixels || options.width > kMostPixels) {
    return absl::InvalidArgumentError(absl::StrCat("Pictures of ", options.height, "x", options.width,
                                                   " pixels; expected 1 to ", kMostPixels, " in each direction"));
  }
  if (options.channels != 1 && options.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("Pictures of ", options.channels, " channels; expected 1 (grey) or 3 (RGB)"));
  }
  if (!in(options.central, 1e-3, 1)) {
    return absl::InvalidArgumentError(absl::StrCat("central is ", options.central, "; expected 0.001 to 1"));
  }
  if (crop.has_value() && !(in(crop->min_area, 1e-6, 1) && in(crop->max_area, crop->min_area, 1) &&
                            in(crop->min_ratio, 1e-3, 1e3) && in(crop->max_ratio, crop->min_ratio, 1e3))) {
    return absl::InvalidArgumentError(absl::StrCat("A random crop with areas of ", crop->min_area, " to ",
                                                   crop->max_area, " and ratios of ", crop->min_ratio, " to ",
                                                   crop->max_ratio, "; expected areas in (0, 1], and both ascending"));
  }
  for (const double range : {options.jitter.brightness, options.jitter.contrast, options.jitter.saturation}) {
    if (!in(range, 0, 1))
      return absl::InvalidArgumentError(absl::StrCat("A colour jitter of ", range, "; expected 0 to 1"));
  }
  if (!in(options.jitter.hue, 0, 0.5)) {
    return absl::InvalidArgumentError(
        absl::StrCat("A jitter of the hue of ", options.jitter.hue, "; expected 0 to 0.5"));
  }
  if (!in(options.rotation, 0, 180)) {
    return absl::InvalidArgumentError(
        absl::StrCat("A rotation of up to ", options.rotation, " degrees; expected 0 to 180"));
  }
  if (options.cache.bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("A cache of ", options.cache.bytes, " bytes"));
  }
  return absl::OkStatus();
}

bool IsPicture(const fs::path& path) {
  const std::string ending = absl::AsciiStrToLower(path.extension().string());
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}
bool IsHidden(const fs::path& path) { return absl::StartsWith(path.filename().string(), "."); }

// The names in a folder that are not hidden, in order.
absl::StatusOr<std::vector<std::string>> Names(const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, io::ListFolder(folder));
  names.erase(std::remove_if(names.begin(), names.end(), [](const std::string& name) { return IsHidden(name); }),
              names.end());
  std::sort(names.begin(), names.end());
  return names;
}

// Adds the pictures in a folder and below it, by path. Links to folders are followed down to a depth that no link that
// leads to itself passes.
absl::Status AddPictures(const std::string& folder, int depth, std::vector<std::string>& paths) {
  constexpr int kDeepest = 16;
  if (depth > kDeepest) return absl::InvalidArgumentError(absl::StrCat(folder, " lies too deep"));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(folder));
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    std::error_code error;
    if (fs::is_directory(path, error)) {
      RETURN_IF_ERROR(AddPictures(path, depth + 1, paths));
    } else if (IsPicture(path)) {
      paths.push_back(path);
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> AllRows(int64_t count) {
  std::vector<int64_t> rows(count);
  for (int64_t i = 0; i < count; ++i) rows[i] = i;
  return rows;
}

// A dataset of one label for each row.
class Labels final : public Dataset {
 public:
  Labels(std::vector<int32_t> labels, Field field) : labels_(std::move(labels)), fields_{std::move(field)} {}
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  absl::Span<const Field> fields() const override { return fields_; }
  absl::Status Read(int64_t index, const Example& example) const override {
    *example.field<int32_t>(0) = labels_[index];
    return absl::OkStatus();
  }

 private:
  const std::vector<int32_t> labels_;
  const std::vector<Field> fields_;
};

absl::StatusOr<std::unique_ptr<PictureDataset>> OpenFolder(const std::string& folder, const PictureOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(folder));
  PictureColumn pictures;
  std::vector<int32_t> labels;
  std::vector<std::string> classes;
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    std::error_code error;
    if (!fs::is_directory(path, error)) continue;
    const size_t before = pictures.paths.size();
    RETURN_IF_ERROR(AddPictures(path, 0, pictures.paths));
    if (pictures.paths.size() == before) {
      spdlog::warn("{} has no pictures, so it is no class", path);
      continue;
    }
    labels.resize(pictures.paths.size(), static_cast<int32_t>(classes.size()));
    classes.push_back(name);
  }
  if (pictures.paths.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, " has no pictures: expected a folder for each class, with files .png, .jpg or .jpeg in it"));
  }
  const Field label{.name = "label",
                    .dtype = DType::kInt32,
                    .categories = static_cast<int64_t>(classes.size()),
                    .category_names = classes};
  const auto count = static_cast<int64_t>(labels.size());
  std::vector<Field> fields{PictureField("image", options, /*mask=*/false), label};
  return std::make_unique<PictureDataset>(std::vector<PictureColumn>{std::move(pictures)}, std::move(fields),
                                          std::make_unique<Labels>(std::move(labels), label), AllRows(count), options);
}

absl::StatusOr<std::unique_ptr<PictureDataset>> OpenList(const std::string& list, const PictureOptions& options) {
  CsvOptions csv = options.csv;
  std::vector<std::string> names = options.pictures;
  names.insert(names.end(), options.masks.begin(), options.masks.end());
  if (options.pictures.empty()) return absl::InvalidArgumentError("A list of pictures needs a column of pictures");
  for (const std::string& name : names) csv.columns.push_back({.name = name, .type = ColumnType::kCategory});
  ASSIGN_OR_RETURN(Table table, ReadCsv(list, csv));
  for (const std::string& warning : table.warnings) spdlog::warn("{}: {}", list, warning);
  std::vector<PictureColumn> columns;
  std::vector<Field> fields;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto column = std::find_if(table.columns.begin(), table.columns.end(),
                                     [&](const Column& each) { return each.name == names[i]; });
    if (column == table.columns.end()) {
      return absl::InvalidArgumentError(absl::StrCat(list, " has no column '", names[i], "' of pictures"));
    }
    PictureColumn pictures{.mask = i >= options.pictures.size()};
    const Tensor& ids = table.values[column - table.columns.begin()];
    for (const int32_t id : ids.span<int32_t>()) {
      pictures.paths.push_back((fs::path(list).parent_path() / column->vocabulary[id]).string());
    }
    fields.push_back(PictureField(names[i], options, pictures.mask));
    columns.push_back(std::move(pictures));
    column->type = ColumnType::kSkip;
  }
  const int64_t rows = table.rows();
  std::unique_ptr<Dataset> others;
  if (std::any_of(table.columns.begin(), table.columns.end(),
                  [](const Column& column) { return column.type != ColumnType::kSkip; })) {
    ASSIGN_OR_RETURN(others, ToDataset(table));
    fields.insert(fields.end(), others->fields().begin(), others->fields().end());
  }
  return std::make_unique<PictureDataset>(std::move(columns), std::move(fields), std::move(others), AllRows(rows),
                                          options);
}

// Finds the examples whose pictures cannot be decoded: errors by example, OK where there is none. An error of reading a
// file is returned.
absl::StatusOr<std::vector<absl::Status>> FindBroken(const PictureDataset& dataset) {
  std::vector<absl::Status> broken(dataset.size());
  std::atomic<int64_t> next{0};
  const auto check = [&]() -> absl::Status {
    for (int64_t i = next++; i < dataset.size(); i = next++) {
      RETURN_IF_ERROR(CatchOutOfMemory("checking pictures", [&] { return dataset.CheckPictures(i, broken[i]); }));
    }
    return absl::OkStatus();
  };
  std::vector<absl::Status> statuses(UsableCores());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < statuses.size(); ++i) {
    auto thread = StartThread("to check pictures", [&, i] { statuses[i] = check(); });
    if (thread.ok()) threads.push_back(*std::move(thread));  // fewer take longer
  }
  statuses[0] = check();
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return broken;
}

// Leaves out the examples whose pictures cannot be decoded.
absl::Status SkipBroken(PictureDataset& dataset, const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<absl::Status> broken, FindBroken(dataset));
  std::vector<char> whole;
  std::vector<std::string> messages;
  for (const absl::Status& status : broken) {
    whole.push_back(status.ok() ? 1 : 0);
    if (!status.ok()) messages.emplace_back(status.message());
  }
  if (messages.empty()) return absl::OkStatus();
  if (messages.size() == broken.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": none of ", broken.size(), " pictures can be decoded: ", messages[0]));
  }
  constexpr size_t kNamed = 10;
  const size_t named = std::min(messages.size(), kNamed);
  spdlog::warn("{}: left out {} of {} examples, whose pictures cannot be decoded: {}{}", path, messages.size(),
               broken.size(), absl::StrJoin(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(named), "; "),
               named < messages.size() ? "; ..." : "");
  dataset.Keep(whole);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PictureDataset>> Open(const std::string& folder_or_list, const PictureOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::error_code error;
  const bool folder = fs::is_directory(folder_or_list, error);
  ASSIGN_OR_RETURN(std::unique_ptr<PictureDataset> dataset,
                   folder ? OpenFolder(folder_or_list, options) : OpenList(folder_or_list, options));
  if (options.skip_broken) RETURN_IF_ERROR(SkipBroken(*dataset, folder_or_list));
  if (options.cache.bytes > 0) RETURN_IF_ERROR(dataset->MakeCache());
  return dataset;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenPictures(std::vector<std::string> paths, const PictureOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (paths.empty()) return absl::InvalidArgumentError("no files of pictures were given");
  const auto count = static_cast<int64_t>(paths.size());
  auto dataset = std::make_unique<PictureDataset>(std::vector<PictureColumn>{{.paths = std::move(paths)}},
                                                  std::vector<Field>{PictureField("image", options, /*mask=*/false)},
                                                  nullptr, AllRows(count), options);
  if (options.skip_broken) RETURN_IF_ERROR(SkipBroken(*dataset, "the files of pictures"));
  if (options.cache.bytes > 0) RETURN_IF_ERROR(dataset->MakeCache());
  return dataset;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenImages(const std::string& folder_or_list, const PictureOptions& options) {
  return Open(folder_or_list, options);
}

absl::StatusOr<TrainAndTest> OpenImages(const std::string& folder_or_list, const PictureOptions& first,
                                        const PictureOptions& second) {
  RETURN_IF_ERROR(CheckOptions(second));
  ASSIGN_OR_RETURN(std::unique_ptr<PictureDataset> dataset, Open(folder_or_list, first));
  std::unique_ptr<Dataset> other = dataset->With(second);
  return TrainAndTest{std::move(dataset), std::move(other)};
}

}  // namespace belfry::data
