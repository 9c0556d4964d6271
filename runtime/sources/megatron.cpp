#include "runtime/sources/megatron.h"

#include <fmt/format.h>

#include <optional>

namespace batchflow::sources {
namespace {

using batch::ElementType;

constexpr std::size_t kHead = 34;
constexpr std::uint64_t kVersion = 1;

std::optional<ElementType> type_of(unsigned code) {
  switch (code) {
    case 1:
      return ElementType::u8;
    case 2:
      return ElementType::i8;
    case 3:
      return ElementType::i16;
    case 4:
      return ElementType::i32;
    case 5:
      return ElementType::i64;
    case 6:
      return ElementType::f64;
    case 7:
      return ElementType::f32;
    case 8:
      return ElementType::u16;
    default:
      return std::nullopt;
  }
}

// The file has all of the list.
template <class T>
T number(ByteView& file, std::uint64_t list, std::uint64_t index) {
  return load<T>(file.view(list + index * sizeof(T), sizeof(T)));
}

}  // namespace

std::string MegatronIndex::open(Bytes tokens_bytes) {
  tokens_bytes_ = tokens_bytes;
  const auto head = lengths_.view(0, kHead);
  if (!as_text(head).starts_with(kMegatronMagic))
    return "it is no index of Megatron-LM, which begins with MMIDIDX";
  if (head.size() < kHead) return "it ends within its head; copy it again";
  const auto version = load<std::uint64_t>(head, 9);
  if (version != kVersion)
    return fmt::format("it has version {}, and version {} is read", version, kVersion);
  const auto code = std::to_integer<unsigned>(head[17]);
  const auto type = type_of(code);
  if (!type) return fmt::format("its type of tokens, {}, is not known", code);
  type_ = *type;
  sequences_ = load<std::uint64_t>(head, 18);
  const auto entries = load<std::uint64_t>(head, 26);
  const Bytes room = lengths_.size() - kHead;
  // In this order nothing overflows.
  if (sequences_ > room / 12 || entries > (room - sequences_ * 12) / 8)
    return fmt::format(
        "it says {} sequences and {} documents, and is too short for so many; copy "
        "it again",
        sequences_, entries);
  if (entries == 0) return "it has no list of documents";
  documents_ = entries - 1;
  offsets_at_ = kHead + sequences_ * 4;
  documents_at_ = offsets_at_ + sequences_ * 8;
  if (number<std::uint64_t>(first_sequences_, documents_at_, 0) != 0)
    return "its first document does not begin with its first sequence";
  return {};
}

bool MegatronIndex::next(Document& document, std::string& problem) {
  if (document_ == documents_) {
    if (sequence_ < sequences_)
      problem =
          fmt::format("{} sequences at its end belong to no document", sequences_ - sequence_);
    return false;
  }
  const auto last = number<std::uint64_t>(first_sequences_, documents_at_, ++document_);
  if (last < sequence_ || last > sequences_) {
    problem = fmt::format("document {} ends with sequence {}, where {} to {} could be",
                          document_ - 1, last, sequence_, sequences_);
    return false;
  }
  document = {end_, 0};
  for (; sequence_ < last; ++sequence_) {
    const auto tokens = number<std::int32_t>(lengths_, kHead, sequence_);
    const auto offset = number<std::uint64_t>(offsets_, offsets_at_, sequence_);
    if (tokens < 0 || offset != end_) {
      problem =
          fmt::format("sequence {} has {} tokens at byte {}, and the one before it ends at {}",
                      sequence_, tokens, offset, end_);
      return false;
    }
    const Bytes bytes = static_cast<Bytes>(tokens) * batch::element_bytes(type_);
    if (bytes > tokens_bytes_ - end_) {
      problem = fmt::format("sequence {} ends beyond the {} bytes of tokens; copy both files again",
                            sequence_, tokens_bytes_);
      return false;
    }
    document.bytes += bytes;
    end_ += bytes;
  }
  return true;
}

}  // namespace batchflow::sources
