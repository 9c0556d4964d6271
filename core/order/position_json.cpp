// One flat object. Its fields may stand in any order.
#include "core/order/position_json.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <iterator>

#include "core/base/byte_codec.h"
#include "core/base/names.h"
#include "core/order/index_set.h"
#include "core/order/position_forms.h"

namespace batchflow::order {
namespace {

constexpr std::uint64_t kJsonFormat = 1;

enum Field : std::size_t {
  v,
  order,
  dataset,
  samples,
  seed,
  epoch,
  consumed,
  generation,
  block,
  lane,
  passes,
  had,
  open,
  cursor,
  weights,
  draws,
  buffer,
  rehearsed,
  left_out,
  mixture,
  first,
};
constexpr std::array<std::string_view, 21> kFieldNames{
    "v",          "order", "dataset", "samples",   "seed",     "epoch",   "consumed",
    "generation", "block", "lane",    "passes",    "had",      "open",    "cursor",
    "weights",    "draws", "buffer",  "rehearsed", "left_out", "mixture", "first"};
constexpr std::uint32_t bit(Field field) {
  return 1u << field;
}
constexpr std::uint32_t kAlways =
    bit(v) | bit(order) | bit(dataset) | bit(samples) | bit(seed) | bit(epoch) | bit(consumed);
constexpr std::uint32_t kGeneration =
    bit(generation) | bit(block) | bit(lane) | bit(passes) | bit(had) | bit(open) | bit(cursor);
constexpr std::uint32_t kChosen = bit(left_out);
constexpr std::uint32_t kWeights = bit(weights) | bit(draws);
constexpr std::uint32_t kMixture = bit(mixture) | bit(draws);
constexpr std::uint32_t kLive = bit(first);
constexpr std::uint32_t kRehearsal = bit(buffer) | bit(rehearsed);

struct RawOpenLane {
  std::uint32_t lane = 0;
  std::uint32_t pass = 0;
  std::vector<std::uint8_t> had;
};

// The object's fields as they were read, before it is known that they fit together.
struct Raw {
  std::uint32_t seen = 0;  // a bit per Field
  Position::Fields fields;
  LaneSizes sizes;
  std::vector<std::uint8_t> had;
  std::vector<RawOpenLane> open;
  std::vector<std::uint8_t> left_out;
  std::vector<std::uint8_t> mixing;
};

// Reads the few kinds of values that a position has. After the first failure it stays where it was.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool ok() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }
  void fail(std::string_view what) {
    if (ok()) problem_ = fmt::format("position, character {}: {}", at_ + 1, what);
  }

  // Whether `c` comes next; if so it is read.
  bool take(char c) {
    skip_space();
    if (!ok() || at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("'{}' is expected", c));
  }
  void expect_end() {
    skip_space();
    if (at_ != text_.size()) fail("nothing more is expected");
  }

  // No name or value of a position needs an escape, so there are none.
  std::string_view string() {
    expect('"');
    const std::size_t end = text_.find_first_of("\"\\", at_);
    if (ok() && (end == text_.npos || text_[end] == '\\')) fail("a plain string is expected");
    if (!ok()) return {};
    const std::string_view value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }
  std::uint64_t number(std::uint64_t most = UINT64_MAX) {
    skip_space();
    std::uint64_t value = 0;
    const char* first = text_.data() + at_;
    const auto [last, error] = std::from_chars(first, text_.data() + text_.size(), value);
    const bool leading_zero = last - first > 1 && *first == '0';
    if (error != std::errc() || leading_zero || value > most) fail("a number in range is expected");
    if (!ok()) return 0;
    at_ += static_cast<std::size_t>(last - first);
    return value;
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number(UINT32_MAX)); }
  std::uint64_t digest() {
    const std::string_view text = string();
    std::uint64_t value = 0;
    const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() != 16 || error != std::errc() || last != text.data() + text.size()) {
      fail("16 hexadecimal digits are expected");
    }
    return ok() ? value : 0;
  }
  std::vector<std::uint8_t> base64() {
    auto bytes = bytes_of_base64(string());
    if (!bytes) fail("base64 is expected");
    return ok() ? std::move(*bytes) : std::vector<std::uint8_t>();
  }
  // [entry, entry, ...]; at most `most` of them.
  template <class ReadEntry>
  void list(std::size_t most, ReadEntry read_entry) {
    expect('[');
    if (take(']')) return;
    for (std::size_t i = 0; ok(); ++i) {
      if (i == most) return fail("too many entries");
      expect('[');
      read_entry();
      expect(']');
      if (take(']')) return;
      expect(',');
    }
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string problem_;
};

void read_open_lanes(Scanner& scanner, Raw& raw) {
  scanner.list(Position::kOpenLanesMost, [&] {
    RawOpenLane entry;
    entry.lane = scanner.number32();
    scanner.expect(',');
    entry.pass = scanner.number32();
    scanner.expect(',');
    entry.had = scanner.base64();
    raw.open.push_back(std::move(entry));
  });
}

void read_part_blocks(Scanner& scanner, Raw& raw) {
  scanner.list(Position::kPartBlocksMost, [&] {
    Position::PartBlock entry;
    entry.lane = scanner.number32();
    scanner.expect(',');
    entry.block = scanner.number32();
    scanner.expect(',');
    entry.used = scanner.number32();
    raw.fields.part_blocks.push_back(entry);
  });
}

void read_version(Scanner& scanner) {
  const std::uint64_t version = scanner.number();
  if (version != kJsonFormat) {
    scanner.fail(fmt::format("format {}; this program reads format {}", version, kJsonFormat));
  }
}

Order read_order(Scanner& scanner) {
  if (const auto order = order_named(scanner.string())) return *order;
  scanner.fail(fmt::format("one of {} is expected", fmt::join(kOrderNames, ", ")));
  return Order::strict;
}

void read_value(Scanner& scanner, Field field, Raw& raw) {
  Position::Fields& fields = raw.fields;
  switch (field) {
    case v:
      return read_version(scanner);
    case order:
      fields.order = read_order(scanner);
      return;
    case dataset:
      fields.dataset_version = scanner.digest();
      return;
    case samples:
      fields.samples = scanner.number();
      return;
    case seed:
      fields.seed = scanner.number();
      return;
    case epoch:
      fields.epoch = scanner.number32();
      return;
    case consumed:
      fields.consumed = scanner.number();
      return;
    case generation:
      fields.lanes.generation = scanner.number();
      return;
    case block:
      raw.sizes.block_samples = scanner.number32();
      return;
    case lane:
      raw.sizes.lane_blocks = scanner.number32();
      return;
    case passes:
      fields.lanes.passes = scanner.base64();
      return;
    case had:
      raw.had = scanner.base64();
      return;
    case open:
      return read_open_lanes(scanner, raw);
    case cursor:
      return read_part_blocks(scanner, raw);
    case weights:
      fields.weights = scanner.digest();
      return;
    case draws:
      fields.draws = scanner.number();
      return;
    case buffer:
      fields.buffer = scanner.digest();
      return;
    case rehearsed:
      fields.rehearsed = scanner.number();
      return;
    case left_out:
      raw.left_out = scanner.base64();
      return;
    case mixture:
      raw.mixing = scanner.base64();
      return;
    case first:
      fields.first = scanner.number();
      return;
  }
}

void read_field(Scanner& scanner, Raw& raw) {
  const std::string_view name = scanner.string();
  scanner.expect(':');
  for (std::size_t i = 0; i < kFieldNames.size() && scanner.ok(); ++i) {
    if (kFieldNames[i] != name) continue;
    const auto field = static_cast<Field>(i);
    if ((raw.seen & bit(field)) != 0) return scanner.fail("a field stands twice");
    raw.seen |= bit(field);
    return read_value(scanner, field, raw);
  }
  scanner.fail("this is no field of a position");
}

void read_object(Scanner& scanner, Raw& raw) {
  scanner.expect('{');
  do {
    read_field(scanner, raw);
  } while (scanner.take(','));
  scanner.expect('}');
  scanner.expect_end();
}

std::string missing(std::uint32_t fields) {
  std::string names;
  for (std::size_t i = 0; i < kFieldNames.size(); ++i) {
    if ((fields & 1u << i) == 0) continue;
    names += names.empty() ? "" : ", ";
    names += kFieldNames[i];
  }
  return "a position lacks " + names;
}

// Fields come in groups: those of every position, and those of an order, of which all or none are
// there.
std::string presence_problem(const Raw& raw) {
  if (const auto lacks = kAlways & ~raw.seen; lacks != 0) return missing(lacks);
  const bool is_mixed = raw.fields.order == Order::mixed;
  if ((raw.seen & bit(is_mixed ? weights : mixture)) != 0)
    return "a position has fields of another order";
  if (raw.fields.order == Order::live && (raw.seen & kLive) == 0) return missing(kLive);
  const std::uint32_t draws_group = is_mixed ? kMixture : kWeights;
  for (const auto& [group, own] :
       {std::pair{kGeneration, Order::relaxed},
        std::pair{draws_group, is_mixed ? Order::mixed : Order::weighted},
        std::pair{kChosen, Order::relaxed}, std::pair{kLive, Order::live}}) {
    if ((raw.seen & group) == 0) continue;
    if (raw.fields.order != own) return "a position has fields of another order";
    if (const auto lacks = group & ~raw.seen; lacks != 0) return missing(lacks);
  }
  if (const auto lacks = kRehearsal & ~raw.seen; lacks != 0 && lacks != kRehearsal) {
    return missing(lacks);
  }
  return "";
}

std::string read_left_out(Raw& raw) {
  ByteReader reader(std::as_bytes(std::span(raw.left_out)));
  raw.fields.chosen = true;
  raw.fields.left_out = read_indices(reader, Position::kLeftOutMost, raw.fields.samples);
  if (reader.ok() && reader.at_end()) return "";
  return fmt::format("'left_out' is not a list of at most {} of {} indices", Position::kLeftOutMost,
                     raw.fields.samples);
}

std::string read_mixing(Raw& raw) {
  std::string problem;
  raw.fields.mixing =
      decode_mixing(std::as_bytes(std::span(raw.mixing)), raw.fields.samples, problem);
  return problem;
}

std::string text_of(const Mixing& mixing) {
  std::vector<std::byte> bytes;
  encode(mixing, bytes);
  return base64_of({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::string text_of(std::span<const std::uint64_t> indices) {
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  write_indices(indices, writer);
  return base64_of({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

// Gives the lanes their bitmaps; their lengths follow from the sizes.
std::string assemble_lanes(Raw& raw) {
  LanePosition& lanes = raw.fields.lanes;
  lanes.sizes = {raw.fields.samples, raw.sizes.block_samples, raw.sizes.lane_blocks};
  if (!is_sane(lanes.sizes)) return "blocks or lanes of that size do not cut the samples";
  auto finished = bitmap_of(raw.had, lanes.sizes.lanes());
  if (!finished) return fmt::format("'had' is not a bitmap of {} lanes", lanes.sizes.lanes());
  lanes.had = std::move(*finished);
  for (RawOpenLane& entry : raw.open) {
    if (entry.lane >= lanes.sizes.lanes()) return fmt::format("there is no lane {}", entry.lane);
    auto blocks = bitmap_of(entry.had, lanes.sizes.blocks_of(entry.lane));
    if (!blocks) return fmt::format("the bitmap of open lane {} is of another length", entry.lane);
    lanes.open.push_back({entry.lane, entry.pass, std::move(*blocks)});
  }
  return "";
}

void write_lanes(const Position& position, std::back_insert_iterator<std::string> out) {
  const LanePosition& lanes = position.lanes();
  fmt::format_to(out, R"(,"generation":{},"block":{},"lane":{},"passes":"{}","had":"{}","open":[)",
                 lanes.generation, lanes.sizes.block_samples, lanes.sizes.lane_blocks,
                 base64_of(lanes.passes), base64_of(bytes_of(lanes.had)));
  const char* separator = "";
  for (const auto& lane : lanes.open) {
    fmt::format_to(out, R"({}[{},{},"{}"])", separator, lane.lane, lane.pass,
                   base64_of(bytes_of(lane.had)));
    separator = ",";
  }
  fmt::format_to(out, R"(],"cursor":[)");
  separator = "";
  for (const auto& part : position.part_blocks()) {
    fmt::format_to(out, "{}[{},{},{}]", separator, part.lane, part.block, part.used);
    separator = ",";
  }
  fmt::format_to(out, "]");
}

}  // namespace

std::string to_json(const Position& position) {
  const Position::Fields& fields = position.fields();
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(
      out,
      R"({{"v":{},"order":"{}","dataset":"{:016x}","samples":{},"seed":{},"epoch":{},"consumed":{})",
      kJsonFormat, name_of(fields.order), fields.dataset_version, fields.samples, fields.seed,
      fields.epoch, fields.consumed);
  if (position.has_generation()) write_lanes(position, out);
  if (fields.chosen) fmt::format_to(out, R"(,"left_out":"{}")", text_of(fields.left_out));
  if (fields.order == Order::weighted && fields.draws != 0) {
    fmt::format_to(out, R"(,"weights":"{:016x}","draws":{})", fields.weights, fields.draws);
  }
  if (fields.mixing)
    fmt::format_to(out, R"(,"draws":{},"mixture":"{}")", fields.draws, text_of(*fields.mixing));
  if (fields.order == Order::live) fmt::format_to(out, R"(,"first":{})", fields.first);
  if (fields.buffer != 0 || fields.rehearsed != 0) {
    fmt::format_to(out, R"(,"buffer":"{:016x}","rehearsed":{})", fields.buffer, fields.rehearsed);
  }
  return text + "}";
}

std::optional<Position> position_from_json(std::string_view text, std::string& problem) {
  Scanner scanner(text);
  Raw raw;
  read_object(scanner, raw);
  problem = scanner.problem();
  if (problem.empty()) problem = presence_problem(raw);
  if (problem.empty() && (raw.seen & kGeneration) != 0) problem = assemble_lanes(raw);
  if (problem.empty() && (raw.seen & kChosen) != 0) problem = read_left_out(raw);
  if (problem.empty() && (raw.seen & bit(mixture)) != 0) problem = read_mixing(raw);
  if (!problem.empty()) return std::nullopt;
  return Position::from(std::move(raw.fields), problem);
}

}  // namespace batchflow::order
