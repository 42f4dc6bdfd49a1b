#include "ops/common/window.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"

namespace belfry::ops {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();  // keeps the sums below from overflowing

absl::Status Resolve(const std::string& padding, const char* name, WindowAxis& axis) {
  if (axis.stride < 1 || axis.dilation < 1 || axis.window == 0) {
    return absl::InvalidArgumentError(absl::StrCat("window, stride and dilation must be positive, but are ",
                                                   axis.window, ", ", axis.stride, " and ", axis.dilation,
                                                   " along the ", name));
  }
  if (std::max({axis.stride, axis.dilation, axis.window, axis.pad_low, axis.pad_high}) > kLargest) {
    return absl::InvalidArgumentError(absl::StrCat("window, stride, dilation and padding must be at most ", kLargest,
                                                   ", but one along the ", name, " is larger"));
  }
  if (axis.in == Shape::kUnknown || axis.window == Shape::kUnknown) {
    axis.out = Shape::kUnknown;
    return absl::OkStatus();
  }
  const int64_t reach = (axis.window - 1) * axis.dilation + 1;
  if (padding == "SAME") {
    axis.out = (axis.in + axis.stride - 1) / axis.stride;
    const int64_t pad = std::max<int64_t>((axis.out - 1) * axis.stride + reach - axis.in, 0);
    axis.pad_low = axis.in == 0 ? 0 : pad / 2;
    axis.pad_high = axis.in == 0 ? 0 : pad - pad / 2;
    return absl::OkStatus();
  }
  const int64_t free = axis.in + axis.pad_low + axis.pad_high - reach;
  if (free < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the window spans ", reach, " elements of the ", name,
                                                   ", but the padded image has only ", free + reach));
  }
  axis.out = free / axis.stride + 1;
  return absl::OkStatus();
}

}  // namespace

std::vector<AttrDef> WindowAttrDefs() {
  return {{"strides", std::vector<int64_t>{1, 1, 1, 1}},
          {"padding", std::string("SAME")},
          {"explicit_paddings", std::vector<int64_t>{}}};
}

void SetWindowAttrs(const Padding& padding, int64_t stride_h, int64_t stride_w, Attrs& attrs) {
  attrs.Set("strides", std::vector<int64_t>{1, stride_h, stride_w, 1});
  attrs.Set("padding", std::string(padding.kind == Padding::kSame    ? "SAME"
                                   : padding.kind == Padding::kValid ? "VALID"
                                                                     : "EXPLICIT"));
  if (padding.kind != Padding::kExplicit) return;
  attrs.Set("explicit_paddings", std::vector<int64_t>{padding.top, padding.bottom, padding.left, padding.right});
}

absl::StatusOr<Window> MakeWindow(const Attrs& attrs, const Shape& image, int64_t window_h, int64_t window_w,
                                  int64_t dilation_h, int64_t dilation_w) {
  if (image.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("images must be [N, H, W, C], not ", image.ToString()));
  }
  const std::vector<int64_t>& strides = attrs.Ints("strides");
  if (strides.size() != 4 || strides[0] != 1 || strides[3] != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("strides must be [1, h, w, 1], but are [", absl::StrJoin(strides, ", "), "]"));
  }
  Window window;
  window.h = {.in = image[1], .window = window_h, .stride = strides[1], .dilation = dilation_h};
  window.w = {.in = image[2], .window = window_w, .stride = strides[2], .dilation = dilation_w};
  const std::string& padding = attrs.String("padding");
  if (padding == "EXPLICIT") {
    const std::vector<int64_t>& pads = attrs.Ints("explicit_paddings");
    if (pads.size() != 4 || *std::min_element(pads.begin(), pads.end()) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("explicit_paddings must be [top, bottom, left, right], none negative, but are [",
                       absl::StrJoin(pads, ", "), "]"));
    }
    window.h.pad_low = pads[0], window.h.pad_high = pads[1];
    window.w.pad_low = pads[2], window.w.pad_high = pads[3];
  } else if (padding != "SAME" && padding != "VALID") {
    return absl::InvalidArgumentError(absl::StrCat("padding must be SAME, VALID or EXPLICIT, but is ", padding));
  }
  RETURN_IF_ERROR(Resolve(padding, "height", window.h));
  RETURN_IF_ERROR(Resolve(padding, "width", window.w));
  return window;
}

}  // namespace belfry::ops
