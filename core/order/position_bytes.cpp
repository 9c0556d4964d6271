// Version, order, then what that order has, in the order of Fields.
#include "core/order/position_bytes.h"

#include "core/base/byte_codec.h"
#include "core/order/index_set.h"
#include "core/order/position_forms.h"

namespace batchflow::order {
namespace {

constexpr std::uint8_t kBytesFormat = 2;
// Stands for Order::relaxed where a policy chooses the samples.
constexpr std::uint8_t kChosenOrder = 5;
constexpr std::uint8_t kMixedOrder = 6;
constexpr std::uint8_t kLiveOrder = 7;

std::uint8_t code_of(const Position::Fields& fields) {
  if (fields.chosen) return kChosenOrder;
  if (fields.order == Order::live) return kLiveOrder;
  return fields.order == Order::mixed ? kMixedOrder : static_cast<std::uint8_t>(fields.order);
}

Order order_of(std::uint8_t code) {
  if (code == kMixedOrder) return Order::mixed;
  if (code == kLiveOrder) return Order::live;
  return code == kChosenOrder ? Order::relaxed : static_cast<Order>(code);
}

std::optional<Mixing> read_mixing(ByteReader& reader, std::uint64_t samples) {
  const std::vector<std::uint8_t> bytes = reader.bytes(reader.count());
  std::string problem;
  auto mixing = decode_mixing(std::as_bytes(std::span(bytes)), samples, problem);
  if (!mixing) reader.fail();
  return mixing;
}

void write_lanes(const Position::Fields& fields, ByteWriter& writer) {
  const LanePosition& lanes = fields.lanes;
  if (lanes.sizes.samples == 0) return writer.count(0);
  writer.count(lanes.sizes.block_samples);
  writer.count(lanes.sizes.lane_blocks);
  writer.count(lanes.generation);
  writer.bytes(lanes.passes);
  writer.bytes(bytes_of(lanes.had));
  writer.count(lanes.open.size());
  for (const auto& open : lanes.open) {
    writer.count(open.lane);
    writer.count(open.pass);
    writer.bytes(bytes_of(open.had));
  }
  writer.count(fields.part_blocks.size());
  for (const auto& part : fields.part_blocks) {
    writer.count(part.lane);
    writer.count(part.block);
    writer.count(part.used);
  }
}

Bitmap read_bitmap(ByteReader& reader, std::uint64_t bits) {
  auto bitmap = bitmap_of(reader.bytes(bitmap_bytes(bits)), bits);
  if (!bitmap) reader.fail();
  return bitmap.value_or(Bitmap());
}

void read_open_lanes(ByteReader& reader, LanePosition& lanes) {
  const std::uint64_t count = reader.count(Position::kOpenLanesMost);
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    const auto lane = reader.count32();
    const auto pass = reader.count32();
    if (lane >= lanes.sizes.lanes()) return reader.fail();
    lanes.open.push_back({lane, pass, read_bitmap(reader, lanes.sizes.blocks_of(lane))});
  }
}

void read_lanes(ByteReader& reader, Position::Fields& fields) {
  LanePosition& lanes = fields.lanes;
  const std::uint32_t block_samples = reader.count32();
  if (block_samples == 0) return;
  lanes.sizes = {fields.samples, block_samples, reader.count32()};
  lanes.generation = reader.count();
  if (!reader.ok() || !is_sane(lanes.sizes)) return reader.fail();
  lanes.passes = reader.bytes(lanes.sizes.lanes());
  lanes.had = read_bitmap(reader, lanes.sizes.lanes());
  read_open_lanes(reader, lanes);
  const std::uint64_t parts = reader.count(Position::kPartBlocksMost);
  for (std::uint64_t i = 0; i < parts && reader.ok(); ++i) {
    const auto lane = reader.count32();
    const auto block = reader.count32();
    fields.part_blocks.push_back({lane, block, reader.count32()});
  }
}

}  // namespace

void encode(const Position& position, std::vector<std::byte>& out) {
  const Position::Fields& fields = position.fields();
  ByteWriter writer(out);
  writer.u8(kBytesFormat);
  writer.u8(code_of(fields));
  writer.u64(fields.dataset_version);
  writer.u64(fields.seed);
  writer.count(fields.samples);
  writer.count(fields.epoch);
  writer.count(fields.consumed);
  if (fields.chosen) {
    write_indices(fields.left_out, writer);
  } else if (fields.order == Order::relaxed) {
    write_lanes(fields, writer);
  }
  if (fields.order == Order::weighted) {
    writer.u64(fields.weights);
    writer.count(fields.draws);
  }
  if (fields.mixing) {
    writer.count(fields.draws);
    std::vector<std::byte> bytes;
    encode(*fields.mixing, bytes);
    writer.count(bytes.size());
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  if (fields.order == Order::live) writer.count(fields.first);
  writer.u64(fields.buffer);
  writer.count(fields.rehearsed);
}

std::optional<Position> decode_position(std::span<const std::byte> bytes, std::string& problem) {
  ByteReader reader(bytes);
  if (const auto format = reader.u8(); reader.ok() && format != kBytesFormat) {
    problem = "a position of format " + std::to_string(format) + "; this program reads format " +
              std::to_string(kBytesFormat);
    return std::nullopt;
  }
  Position::Fields fields;
  const std::uint8_t order = reader.u8();
  if (order > kLiveOrder) reader.fail();
  fields.chosen = order == kChosenOrder;
  fields.order = order_of(reader.ok() ? order : 0);
  fields.dataset_version = reader.u64();
  fields.seed = reader.u64();
  fields.samples = reader.count();
  fields.epoch = reader.count32();
  fields.consumed = reader.count();
  if (fields.chosen) {
    fields.left_out = read_indices(reader, Position::kLeftOutMost, fields.samples);
  } else if (fields.order == Order::relaxed) {
    read_lanes(reader, fields);
  }
  if (fields.order == Order::weighted) {
    fields.weights = reader.u64();
    fields.draws = reader.count();
  }
  if (fields.order == Order::mixed) {
    fields.draws = reader.count();
    fields.mixing = read_mixing(reader, fields.samples);
  }
  if (fields.order == Order::live) fields.first = reader.count();
  fields.buffer = reader.u64();
  fields.rehearsed = reader.count();
  if (!reader.ok() || !reader.at_end()) {
    problem = "these bytes are not one whole position";
    return std::nullopt;
  }
  return Position::from(std::move(fields), problem);
}

}  // namespace batchflow::order
