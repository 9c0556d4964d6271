#include "runtime/sources/spec_codec.h"

#include <utility>

namespace batchflow::sources {

void put_text(std::string_view text, ByteWriter& out) {
  out.count(text.size());
  out.bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

void put_texts(const std::vector<std::string>& texts, ByteWriter& out) {
  out.count(texts.size());
  for (const std::string& text : texts) put_text(text, out);
}

void put_spec(const batch::BatchSpec& spec, ByteWriter& out) {
  out.count(spec.fields.size());
  for (const batch::Field& field : spec.fields) {
    put_text(field.name, out);
    out.count(static_cast<std::uint64_t>(field.type));
    out.count(field.ragged ? 1 : 0);
    out.count(field.shape.size());
    for (const std::uint64_t size : field.shape) out.u64(size);
  }
}

std::string take_text(ByteReader& in) {
  const auto bytes = in.bytes(in.count(in.left()));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::string> take_texts(ByteReader& in) {
  std::vector<std::string> texts;
  for (std::uint64_t left = in.count(in.left()); left > 0 && in.ok(); --left)
    texts.push_back(take_text(in));
  return texts;
}

batch::BatchSpec take_spec(ByteReader& in) {
  batch::BatchSpec spec;
  for (std::uint64_t left = in.count(batch::BatchSpec::kFieldsMost); left > 0 && in.ok(); --left) {
    batch::Field field;
    field.name = take_text(in);
    field.type = static_cast<batch::ElementType>(in.count(batch::kElementTypes - 1));
    field.ragged = in.count(1) == 1;
    field.shape.resize(in.count(batch::Field::kDimensionsMost));
    for (std::uint64_t& size : field.shape) size = in.u64();
    spec.fields.push_back(std::move(field));
  }
  return spec;
}

}  // namespace batchflow::sources
