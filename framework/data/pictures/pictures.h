// Data sets of pictures in files: PNG and JPEG of any size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/dataset.h"
#include "framework/data/table/csv.h"

namespace belfry::data {

// A random part of a picture: an area of `min_area` to `max_area` of the whole, with a ratio of width to height from
// `min_ratio` to `max_ratio`, each uniform, the ratio by its logarithm (Szegedy et al., "Going deeper with
// convolutions", 2015, section 6).
struct RandomResizedCrop {
  double min_area = 0.08, max_area = 1;
  double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;
};

// Random changes of colour, in this order. The first three are a factor uniform in [1 - x, 1 + x]: of all values; of
// their distance from the picture's mean grey; and of their distance from the pixel's own grey. The last turns the
// colours around the grey axis, in the plane of YIQ, by a share of the circle uniform in [-x, x]. 0: none.
struct ColourJitter {
  double brightness = 0, contrast = 0, saturation = 0;  // each in [0, 1]
  double hue = 0;                                       // in [0, 0.5]
};

// Decoded pictures that are kept from epoch to epoch, those that are read first, in memory or in a file of `folder`,
// which has no name and ends with the process. JPEGs are then always decoded whole: their pixels would otherwise depend
// on which ones are kept. A picture takes a byte for each channel of a pixel.
struct PictureCacheOptions {
  int64_t bytes = 0;  // 0: none are kept
  std::string folder = {};
};

// The way from a picture to an example. What is random depends on (seed, epoch, index) only, the index among
// all files, and only where a Prefetcher reads; the pictures and masks of an example are cut alike.
struct PictureOptions {
  int64_t height = 224, width = 224;  // pixels of an example; up to 16384
  int channels = 3;                   // 3: RGB, 1: grey
  // The share of the picture, in the middle, that an example holds without a random crop, along the direction in which
  // less of it fits; 224 / 256 is usual in evaluations. 1: as much as possible.
  double central = 1;
  std::optional<RandomResizedCrop> random_crop = {};
  double rotation = 0;       // turns the example by degrees uniform in [-x, x]; in [0, 180]. Empty corners become 0
  ColourJitter jitter = {};  // not of masks
  PictureCacheOptions cache = {};
  // Reads all files once when the data set is opened, in all threads, and leaves out those that cannot be decoded, with
  // a warning that counts them and names the first. Otherwise the first one that is read is an error.
  bool skip_broken = false;
  // The columns of a list that hold paths of pictures and of masks, relative to the folder of the list. A mask has one
  // channel and is resized without mixing values; of a PNG it has the stored numbers, such as a palette's
  // indices.
  std::vector<std::string> pictures = {"image"}, masks = {};
  CsvOptions csv = {};  // the other columns of a list
};

// The pictures in a folder that has a folder for each class: fields "image", uint8 [height, width, channels], and
// "label", int32 [], the number of the class in the order of their names, which are the field's category_names. Files
// count whose names end in .png, .jpg or .jpeg, in letters of either case, also those in folders below; hidden ones do
// not. A folder without any is not a class, and a warning names it. Examples are ordered by class, then by path.
//
// Or a list, a CSV file: a field for each of its columns. An image policy (PrefetcherOptions::images) then flips,
// changes and normalises the pictures.
//
// Reading is thread-safe, and an example that is not cached is decoded whenever it is read. Errors: NotFound: no such
// folder or file; InvalidArgument: options out of range, a folder without classes or pictures, a list without the
// columns; those of ReadCsv. Dataset::Read: those of io::DecodePicture and of reading the file, with its path;
// InvalidArgument for a mask of another size than the first picture of its example.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImages(const std::string& folder_or_list,
                                                    const PictureOptions& options = {});

// The same examples twice, as a training and an evaluation see them. Files are found, and checked for skip_broken of
// the first options, once, and have one cache; `pictures`, `masks`, `csv`, skip_broken and `cache` of the second do not
// matter.
struct TrainAndTest {
  std::unique_ptr<Dataset> first, second;
};
absl::StatusOr<TrainAndTest> OpenImages(const std::string& folder_or_list, const PictureOptions& first,
                                        const PictureOptions& second);

// The pictures in these files, in this order, as field "image". Errors: those above.
absl::StatusOr<std::unique_ptr<Dataset>> OpenPictures(std::vector<std::string> paths,
                                                      const PictureOptions& options = {});

}  // namespace belfry::data
