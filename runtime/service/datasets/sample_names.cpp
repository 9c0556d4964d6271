#include "runtime/service/datasets/sample_names.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace batchflow::service {

namespace {

// The CRC-32 of zlib, PNG and Ethernet, which Python has, too.
class Crc32 {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes)
      value_ = kTable[(value_ ^ static_cast<unsigned char>(byte)) & 0xff] ^ (value_ >> 8);
  }
  std::uint32_t value() const { return ~value_; }

 private:
  static constexpr std::array<std::uint32_t, 256> kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0xedb88320u : 0);
    }
    return table;
  }();
  std::uint32_t value_ = ~0u;
};

}  // namespace

std::string name_in(const sources::SampleIndex& index, bool of_class, std::uint64_t key) {
  if (of_class) return key < index.classes().size() ? index.classes()[key] : std::string();
  return key < index.samples() ? index.sample_name(SampleId(key)) : std::string();
}

protocol::FindMessage find_in(const sources::SampleIndex& index, protocol::FindMessage question) {
  const std::uint64_t all = index.samples();
  const std::uint64_t first = std::min(question.from, all);
  const std::uint64_t end = first + std::min(all - first, protocol::FindMessage::kMost);
  question.key = {};
  question.next = {};
  for (std::uint64_t key = first; key < end && !question.key; ++key) {
    if (index.sample_name(SampleId(key)) == question.name) question.key = key;
  }
  if (!question.key && end < all) question.next = end;
  return question;
}

protocol::SamplesSum sum_of(const sources::SampleIndex& index, protocol::SamplesSum of_samples) {
  const std::uint64_t all = index.samples();
  of_samples.first = std::min(of_samples.first, all);
  of_samples.count = std::min(of_samples.count, all - of_samples.first);
  Crc32 names, labels;
  of_samples.pairs = 0;
  for (std::uint64_t i = 0; i < of_samples.count; ++i) {
    const SampleId sample(of_samples.first + i);
    const std::string name = index.sample_name(sample) + '\0';
    const std::string label = std::to_string(index.label(sample).value_or(-1));
    names.add(name);
    labels.add(label + '\0');
    Crc32 pair;
    pair.add(name);
    pair.add(label);
    of_samples.pairs += pair.value();
  }
  of_samples.names = names.value();
  of_samples.labels = labels.value();
  return of_samples;
}

}  // namespace batchflow::service
