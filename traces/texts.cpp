#include "traces/texts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/config_value.h"
#include "core/base/random.h"

namespace batchflow::traces {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' || c == 0x7f;
}

std::uint32_t hash_of(std::string_view text) {
  std::uint64_t sum = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) {
    std::uint64_t word;
    std::memcpy(&word, text.data(), 8);
    sum = mix(sum ^ word);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, text.data(), text.size());
  return static_cast<std::uint32_t>(mix(sum ^ word) >> 32);
}

}  // namespace

std::string_view Texts::operator[](TextId id) const {
  std::uint16_t length;
  std::memcpy(&length, pool_.data() + id, sizeof length);
  return {pool_.data() + id + sizeof length, length};
}

TextId Texts::keep(std::string_view text) {
  if (text.empty()) return kNoText;
  const auto length = static_cast<std::uint16_t>(std::min(text.size(), kLongest));
  const std::size_t id = pool_.size();
  if (id > UINT32_MAX) {
    throw ConfigError("the names in a trace may fill 4 GiB, and these take more; split the file");
  }
  pool_.append(reinterpret_cast<const char*>(&length), sizeof length)
      .append(text.substr(0, length));
  std::replace_if(pool_.end() - length, pool_.end(), is_control, '?');
  return static_cast<TextId>(id);
}

TextId Texts::intern(std::string_view text) {
  if (text.empty()) return kNoText;
  if (2 * (interned_ + 1) > table_.size()) double_up();
  text = text.substr(0, kLongest);
  std::string clean;
  if (std::any_of(text.begin(), text.end(), is_control)) {
    clean = text;
    std::replace_if(clean.begin(), clean.end(), is_control, '?');
    text = clean;
  }
  const std::uint32_t hash = hash_of(text);
  Entry& entry = table_[find(text, hash)];
  if (entry.id == kNoText) {
    entry = {hash, keep(text)};
    ++interned_;
  }
  return entry.id;
}

std::size_t Texts::find(std::string_view text, std::uint32_t hash) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t bucket = hash & mask;
  while (table_[bucket].id != kNoText &&
         (table_[bucket].hash != hash || (*this)[table_[bucket].id] != text)) {
    bucket = (bucket + 1) & mask;
  }
  return bucket;
}

void Texts::double_up() {
  std::vector<Entry> old(table_.empty() ? 1024 : 2 * table_.size());
  old.swap(table_);
  const std::size_t mask = table_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.id == kNoText) continue;
    std::size_t bucket = entry.hash & mask;
    while (table_[bucket].id != kNoText) bucket = (bucket + 1) & mask;
    table_[bucket] = entry;
  }
}

}  // namespace batchflow::traces
