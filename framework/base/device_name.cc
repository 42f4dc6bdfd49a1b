#include "framework/base/device_name.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/check.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

bool IsWord(absl::string_view text) {
  return !text.empty() && absl::ascii_isalpha(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

std::string CanonicalType(absl::string_view type) {
  const bool known = absl::EqualsIgnoreCase(type, "CPU") || absl::EqualsIgnoreCase(type, "GPU");
  return known ? absl::AsciiStrToUpper(type) : std::string(type);
}

// ParseWord and ParseNumber parse all of `text`, the value of the field called `field`. Their errors are one clause of
// Parse's message.
absl::Status ParseWord(absl::string_view field, absl::string_view text, std::optional<std::string>& value) {
  if (!IsWord(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", field, " '", text, "' must be a letter followed by letters, digits or '_'"));
  }
  value = std::string(text);
  return absl::OkStatus();
}

absl::Status ParseNumber(absl::string_view field, absl::string_view text, std::optional<int>& value) {
  int number = 0;
  // SimpleAtoi also takes a sign and spaces.
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isdigit) || !absl::SimpleAtoi(text, &number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", field, " '", text, "' must be a number (digits only, at most 2147483647)"));
  }
  value = number;
  return absl::OkStatus();
}

// Like ParseWord and ParseNumber, but "*" leaves the field unset.
template <class T, class ParseValue>
absl::Status ParseOrAny(ParseValue parse, absl::string_view field, absl::string_view text, std::optional<T>& value) {
  value.reset();
  if (text == "*") return absl::OkStatus();
  absl::Status status = parse(field, text, value);
  return status.ok() ? status : absl::InvalidArgumentError(absl::StrCat(status.message(), ", or '*'"));
}

// `text` is the part after "/device:".
absl::Status ParseTypeAndId(absl::string_view text, DeviceName& name) {
  const size_t colon = text.find(':');
  RETURN_IF_ERROR(ParseOrAny(ParseWord, "device type", text.substr(0, colon), name.type));
  if (name.type) name.type = CanonicalType(*name.type);
  name.id.reset();
  if (colon == absl::string_view::npos) return absl::OkStatus();
  return ParseOrAny(ParseNumber, "device id", text.substr(colon + 1), name.id);
}

absl::Status ParseComponent(absl::string_view component, DeviceName& name) {
  absl::string_view value = component;
  if (absl::ConsumePrefix(&value, "/job:")) return ParseOrAny(ParseWord, "job", value, name.job);
  if (absl::ConsumePrefix(&value, "/replica:")) return ParseOrAny(ParseNumber, "replica", value, name.replica);
  if (absl::ConsumePrefix(&value, "/task:")) return ParseOrAny(ParseNumber, "task", value, name.task);
  if (absl::ConsumePrefix(&value, "/device:")) return ParseTypeAndId(value, name);
  for (absl::string_view type : {"cpu", "CPU", "gpu", "GPU"}) {
    if (!absl::ConsumePrefix(&value, absl::StrCat("/", type, ":"))) continue;
    name.type = CanonicalType(type);
    return ParseOrAny(ParseNumber, "device id", value, name.id);
  }
  return absl::InvalidArgumentError(
      "expected /job:NAME, /replica:N, /task:N, /device:TYPE, /device:TYPE:N, /cpu:N or /gpu:N "
      "(the last two also in upper case)");
}

absl::Status ParseError(absl::string_view text, absl::string_view component, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("Cannot parse the device name '", text, "' at '", component, "': ", problem));
}

std::string TaskToString(const DeviceName& name) {
  std::string text;
  if (name.job) absl::StrAppend(&text, "/job:", *name.job);
  if (name.replica) absl::StrAppend(&text, "/replica:", *name.replica);
  if (name.task) absl::StrAppend(&text, "/task:", *name.task);
  return text;
}

std::string IdToString(const DeviceName& name) { return name.id ? absl::StrCat(*name.id) : "*"; }

template <class T>
bool Conflict(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b && *a != *b;
}

template <class T>
bool Specifies(const std::optional<T>& less, const std::optional<T>& more) {
  return !less || less == more;
}

template <class T>
void Override(std::optional<T>& field, const std::optional<T>& with) {
  if (with) field = with;
}

}  // namespace

absl::StatusOr<DeviceName> DeviceName::Parse(absl::string_view text) {
  DeviceName name;
  if (text.empty() || text == "/") return name;
  if (text[0] != '/') return ParseError(text, text.substr(0, text.find('/')), "a device name must begin with '/'");
  for (absl::string_view rest = text; !rest.empty();) {
    const absl::string_view component = rest.substr(0, rest.find('/', 1));
    if (absl::Status status = ParseComponent(component, name); !status.ok()) {
      return ParseError(text, component, status.message());
    }
    rest.remove_prefix(component.size());
  }
  return name;
}

DeviceName DeviceName::Full(absl::string_view job, int replica, int task, absl::string_view type, int id) {
  BELFRY_CHECK(IsWord(job) && IsWord(type) && replica >= 0 && task >= 0 && id >= 0);
  return {.job = std::string(job), .replica = replica, .task = task, .type = CanonicalType(type), .id = id};
}

std::string DeviceName::ToString() const {
  std::string text = TaskToString(*this);
  if (type) absl::StrAppend(&text, "/device:", *type, ":", IdToString(*this));
  return text;
}

std::string DeviceName::ToLegacyString() const {
  if (type != "CPU" && type != "GPU") return ToString();
  return absl::StrCat(TaskToString(*this), "/", absl::AsciiStrToLower(*type), ":", IdToString(*this));
}

std::string DeviceName::ToLocalString() const {
  BELFRY_CHECK(HasFullDevice());
  return absl::StrCat(*type, ":", *id);
}

bool IsSpecification(const DeviceName& less, const DeviceName& more) {
  return Specifies(less.job, more.job) && Specifies(less.replica, more.replica) && Specifies(less.task, more.task) &&
         Specifies(less.type, more.type) && Specifies(less.id, more.id);
}

bool IsDifferentAddressSpace(const DeviceName& a, const DeviceName& b) {
  return Conflict(a.job, b.job) || Conflict(a.replica, b.replica) || Conflict(a.task, b.task);
}

absl::StatusOr<DeviceName> Merge(DeviceName target, const DeviceName& other, MergeMode mode) {
  const auto incompatible = [&](absl::string_view fields) {
    return absl::InvalidArgumentError(absl::StrCat("Cannot merge devices with incompatible ", fields, ": '",
                                                   target.ToString(), "' and '", other.ToString(), "'"));
  };
  if (Conflict(target.job, other.job)) return incompatible("jobs");
  if (Conflict(target.replica, other.replica)) return incompatible("replicas");
  if (Conflict(target.task, other.task)) return incompatible("tasks");
  const bool types_differ = Conflict(target.type, other.type);
  const bool ids_differ = Conflict(target.id, other.id);
  if (mode == MergeMode::kHard && types_differ) return incompatible("types");
  if (mode == MergeMode::kHard && ids_differ) return incompatible("ids");

  target = MergeOverride(std::move(target), other);
  if (types_differ) target.type.reset();
  if (types_differ || ids_differ) target.id.reset();
  return target;
}

DeviceName MergeOverride(DeviceName outer, const DeviceName& inner) {
  Override(outer.job, inner.job);
  Override(outer.replica, inner.replica);
  Override(outer.task, inner.task);
  Override(outer.type, inner.type);
  Override(outer.id, inner.id);
  return outer;
}

}  // namespace belfry
