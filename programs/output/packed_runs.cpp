#include "programs/output/packed_runs.h"

#include <bit>

#include "core/base/byte_codec.h"
#include "core/base/config_value.h"
#include "programs/output/result_fields.h"

namespace batchflow::output {

namespace {

// Most doubles of results are 0, or have few digits and therefore zeros in their last bytes. With
// these bytes in front they are small numbers, which take few bytes.
std::uint64_t turned(std::uint64_t value) {
  std::uint64_t turned = 0;
  for (int i = 0; i < 8; ++i, value >>= 8) turned = turned << 8 | (value & 0xff);
  return turned;
}

class Packer {
 public:
  explicit Packer(std::vector<std::byte>& out) : bytes_(out) {}

  void put(bool value) { bytes_.count(value); }
  void put(std::uint64_t value) { bytes_.count(value); }
  void put(double value) { bytes_.count(turned(std::bit_cast<std::uint64_t>(value))); }
  void put(const std::string& text) {
    bytes_.count(text.size());
    for (const char c : text) bytes_.u8(static_cast<std::uint8_t>(c));
  }
  template <class T>
  void put(const std::vector<T>& values) {
    bytes_.count(values.size());
    for (const T& value : values) put(value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
  requires kHasFields<const T>
  void put(const T& value) {
    for_each_field(value, [this](const char*, const auto& field) { put(field); });
  }

 private:
  ByteWriter bytes_;
};

// A text that was not packed, or was cut short, reads on as zeros, and ok() is false.
class Unpacker {
 public:
  explicit Unpacker(std::string_view text) : bytes_(std::as_bytes(std::span(text))) {}
  bool ok() const { return bytes_.ok() && bytes_.at_end(); }

  void take(bool& value) { value = bytes_.count(1) != 0; }
  void take(std::uint64_t& value) { value = bytes_.count(); }
  void take(double& value) { value = std::bit_cast<double>(turned(bytes_.count())); }
  void take(std::string& text) {
    text.resize(bytes_.count(bytes_.left()));
    for (char& c : text) c = static_cast<char>(bytes_.u8());
  }
  template <class T>
  void take(std::vector<T>& values) {
    values.resize(bytes_.count(bytes_.left()));
    for (T& value : values) take(value);
  }
  template <class A, class B>
  void take(std::pair<A, B>& pair) {
    take(pair.first);
    take(pair.second);
  }
  template <class T>
  void take(std::optional<T>& value) {
    bool has_value = false;
    take(has_value);
    if (has_value) take(value.emplace());
  }
  template <class T>
  requires kHasFields<T>
  void take(T& value) {
    for_each_field(value, [this](const char*, auto& field) { take(field); });
  }

 private:
  ByteReader bytes_;
};

template <class T>
std::string packed(const T& value) {
  std::vector<std::byte> out;
  Packer(out).put(value);
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

template <class T>
T unpacked(std::string_view text) {
  T value;
  Unpacker unpacker(text);
  unpacker.take(value);
  if (!unpacker.ok()) throw ConfigError("not the results of a process to its end; run it again");
  return value;
}

}  // namespace

std::string pack_run(const RunResult& run) {
  return packed(run);
}

RunResult unpack_run(std::string_view text) {
  return unpacked<RunResult>(text);
}

std::string pack_runs(const OptionalRuns& runs) {
  return packed(runs);
}

OptionalRuns unpack_runs(std::string_view text) {
  return unpacked<OptionalRuns>(text);
}

}  // namespace batchflow::output
