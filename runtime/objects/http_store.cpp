#include "runtime/objects/http_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/objects/text.h"

namespace batchflow::objects {
namespace {

using Asked = StoreRequests::Asked;
using Verdict = StoreRequests::Verdict;

constexpr Bytes kPageMost = Bytes{16} << 20;
constexpr Bytes kIndexMost = Bytes{64} << 20;
constexpr unsigned kEmptyPagesMost = 100;
constexpr std::size_t kNamesMost = 1 << 20;
const std::atomic<bool> kNeverStopped{false};

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = kGolden;
  for (const char c : text) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash == 0 ? 1 : hash;
}

std::uint64_t mark_of(const HttpAnswer& answer) {
  return hash_of(first_filled({answer.etag, answer.modified, "no mark"}));
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Whether it can be the path of a file: such as no other are read.
bool is_path(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return true;
}

// `a-{00..02}.tar` is three names, `{a,b}.tar` two.
std::vector<std::string> expanded(std::string_view text) {
  const std::size_t open = text.find('{');
  const std::size_t close = text.find('}', std::min(open, text.size()));
  if (open == std::string_view::npos || close == std::string_view::npos) return {std::string(text)};
  const std::string_view inside = text.substr(open + 1, close - open - 1);
  std::vector<std::string> parts;
  const std::size_t dots = inside.find("..");
  if (dots != std::string_view::npos) {
    const std::string_view from = inside.substr(0, dots);
    const auto first = number_of(from), last = number_of(inside.substr(dots + 2));
    if (!first || !last || *first > *last || *last - *first >= kNamesMost)
      throw StoreError(fmt::format("'{{{}}}' is no range; write it as {{000..127}}", inside));
    for (std::uint64_t i = *first; i <= *last; ++i)
      parts.push_back(fmt::format("{:0{}}", i, from.size()));
  } else {
    for (std::string_view rest = inside;;) {
      const std::size_t comma = rest.find(',');
      parts.emplace_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  std::vector<std::string> names;
  for (const std::string& part : parts)
    for (const std::string& rest : expanded(text.substr(close + 1))) {
      if (names.size() == kNamesMost) throw StoreError("it stands for too many names");
      names.push_back(fmt::format("{}{}{}", text.substr(0, open), part, rest));
    }
  return names;
}

struct ContentRange {
  std::uint64_t first = 0, last = 0;
  std::optional<Bytes> total;
};
std::optional<ContentRange> parse_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  ContentRange range;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](std::uint64_t& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc{};
  };
  if (!number(range.first) || at == end || *at++ != '-' || !number(range.last) || at == end ||
      *at++ != '/')
    return std::nullopt;
  if (std::string_view(at, static_cast<std::size_t>(end - at)) == "*") return range;
  Bytes total = 0;
  if (!number(total) || at != end) return std::nullopt;
  range.total = total;
  return range;
}

}  // namespace

HttpStore::HttpStore(std::string text, Url url, const StoreSettings& settings)
    : text_(std::move(text)), requests_(text_, std::move(url), settings) {}

std::string HttpStore::key_of(std::string_view path) const {
  const std::lock_guard lock(mutex_);
  return prefix_ +
         (requests_.is_bucket() ? std::string(path) : percent_encoded(percent_decoded(path), true));
}

const std::string& HttpStore::only() const {
  resolve();
  return only_;
}

void HttpStore::resolve() const {
  const_cast<HttpStore*>(this)->resolve_now();
}

// A path that ends with a slash is a folder; another is an object, if there is one of that name.
void HttpStore::resolve_now() {
  const std::lock_guard only_once(resolving_);
  if (is_resolved_) return;
  const std::string& path = requests_.url().path;
  const std::size_t slash = path.rfind('/');
  const std::string above = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  std::string prefix = path, name;
  if (!path.empty() && !path.ends_with('/')) {
    name = path.substr(above.size());
    if (!requests_.is_bucket()) {
      prefix = above;
      if (name.find('{') != std::string::npos) name.clear();
    } else if (look_up(path)) {
      prefix = above;
    } else {
      prefix = path + "/";
      name.clear();
    }
  }
  const std::lock_guard lock(mutex_);
  prefix_ = prefix;
  only_ = name;
  is_resolved_ = true;
}

void HttpStore::list(const Listed& listed) {
  resolve();
  if (only_.empty() && requests_.is_bucket()) return list_bucket(prefix_, kPageMost, listed);
  for (const std::string& name : only_.empty() ? names_of_http() : std::vector{only_}) {
    const auto info = look_up(key_of(name));
    if (!info)
      throw StoreError(fmt::format(
          "{}: {} is not there; write the URL of a file, or of a folder with a slash at its end",
          text_, name));
    listed(name, *info);
  }
}

void HttpStore::list_bucket(const std::string& prefix, Bytes page_most, const Listed& listed) {
  std::string continues, last;
  unsigned empty = 0;
  do {
    const std::string before = last;
    list_page(prefix, page_most, continues, last, listed);
    // Pages without keys are allowed, but not for ever.
    if (before == last && !continues.empty() && ++empty > kEmptyPagesMost)
      throw StoreError(fmt::format("{}: its list does not end", text_));
  } while (!continues.empty());
}

void HttpStore::list_page(const std::string& prefix, Bytes page_most, std::string& continues,
                          std::string& last, const Listed& listed) {
  Query query{{"list-type", "2"}, {"prefix", prefix}, {"encoding-type", "url"}};
  if (!continues.empty()) query.emplace_back("continuation-token", continues);
  const HttpAnswer answer = whole("", query, page_most);
  const std::string_view page = answer.body;
  if (page.find("<ListBucketResult") == std::string_view::npos)
    throw StoreError(fmt::format("{}: what it answers is no list of a bucket", text_));
  std::string_view rest = page;
  while (const auto contents = take_element(rest, "Contents")) {
    const std::string key = percent_decoded(unescaped(element(*contents, "Key")));
    const auto bytes = number_of(element(*contents, "Size"));
    const std::string etag = unescaped(element(*contents, "ETag"));
    if (!key.starts_with(prefix) || !bytes)
      throw StoreError(fmt::format("{}: its list has what was not asked for", text_));
    // So a list that goes round is found.
    if (key <= last) throw StoreError(fmt::format("{}: its list is not in ascending order", text_));
    last = key;
    const std::string path = key.substr(prefix.size());
    if (path.ends_with('/') || !is_path(path)) continue;  // stands for a folder, or is no file
    listed(path, {*bytes, hash_of(etag)});
  }
  const bool more = element(page, "IsTruncated") == "true";
  const std::string token = more ? unescaped(element(page, "NextContinuationToken")) : "";
  if (more && token.empty())
    throw StoreError(fmt::format("{}: its list ends in the middle", text_));
  continues = token;
}

// The shards that an index.json names, or the names that braces stand for.
std::vector<std::string> HttpStore::names_of_http() {
  const std::string& path = requests_.url().path;
  std::vector<std::string> names;
  if (!path.empty() && !path.ends_with('/')) {
    const std::size_t slash = path.rfind('/');
    names = expanded(std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1));
  } else {
    const HttpAnswer answer = whole(prefix_ + "index.json", {}, kIndexMost);
    const nlohmann::json json = nlohmann::json::parse(answer.body, nullptr, false);
    const auto shards = json.is_object() ? json.find("shards") : json.end();
    if (shards == json.end() || !shards->is_array())
      throw StoreError(fmt::format(
          "{}: a web server lists no folder, and its index.json names no shards; write the URL of "
          "a file, or of several as shard-{{000..127}}.tar",
          text_));
    for (const nlohmann::json& shard : *shards) {
      const auto name_in = [&](const char* part) {
        const auto found = shard.is_object() ? shard.find(part) : shard.end();
        return shard.is_object() && found != shard.end() && found->is_object()
                   ? found->value("basename", std::string())
                   : std::string();
      };
      std::string name = name_in("zip_data");
      if (name.empty()) name = name_in("raw_data");
      if (is_path(name) && names.size() < kNamesMost) names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

HttpAnswer HttpStore::whole(const std::string& key, Query query, Bytes most) {
  Asked asked;
  asked.key = key;
  asked.query = std::move(query);
  asked.body_most = most;
  HttpAnswer all;
  const auto none = [](Asked&) { return Parts(); };
  const auto judge = [&](HttpAnswer& answer) -> Verdict {
    if (!answer.is_whole) return {Verdict::again, EREMOTEIO, answer.problem};
    all = std::move(answer);
    return {};
  };
  const RangeAnswer done = requests_.ask(asked, none, judge, kNeverStopped);
  if (done.error != 0)
    throw StoreError(fmt::format("{}{}{}: {}", text_, key.empty() ? "" : ": ", key, done.problem));
  return all;
}

std::optional<ObjectInfo> HttpStore::look_up(const std::string& key) {
  Asked asked;
  asked.method = "HEAD";
  asked.key = key;
  std::optional<ObjectInfo> info;
  const auto none = [](Asked&) { return Parts(); };
  const auto judge = [&](HttpAnswer& answer) -> Verdict {
    if (!answer.length) return {Verdict::failed, EREMOTEIO, "it does not say how long it is"};
    info = ObjectInfo{*answer.length, mark_of(answer)};
    return {};
  };
  const RangeAnswer done = requests_.ask(asked, none, judge, kNeverStopped);
  if (done.error == ENOENT) return std::nullopt;
  if (done.error != 0) throw StoreError(fmt::format("{}: {}: {}", text_, key, done.problem));
  return info;
}

ObjectInfo HttpStore::look(std::string_view path) {
  resolve();
  const std::string key = key_of(path);
  const auto info = look_up(key);
  if (!info) throw ObjectChanged(fmt::format("{}: {} is not there", text_, key));
  return *info;
}

RangeAnswer HttpStore::read(std::string_view path, std::uint64_t mark, std::uint64_t offset,
                            std::span<const std::span<std::byte>> to,
                            const std::atomic<bool>& stop) {
  const Parts all(to);
  const Bytes bytes = all.left();
  if (bytes == 0) return {};
  Bytes got = 0;
  Asked asked;
  asked.key = key_of(path);
  const auto next = [&](Asked& one) {
    one.range = fmt::format("bytes={}-{}", offset + got, offset + bytes - 1);
    Parts rest = all;
    rest.skip(got);
    return rest;
  };
  const auto judge = [&](HttpAnswer& answer) -> Verdict {
    if (mark != 0 && mark_of(answer) != mark)
      return {Verdict::failed, ESTALE, "the object has changed since it was listed"};
    if (answer.status == 200) {
      // All of the object: it is what was asked for, or the server knows no ranges.
      const bool from_begin = offset == 0 && got == 0;
      if (from_begin && answer.is_whole && answer.in_memory == bytes) return {};
      if (offset == 0 && got > 0) {
        got = 0;
        return {Verdict::again, EREMOTEIO, "it answers all of the object instead of the rest"};
      }
      if (from_begin && answer.length == bytes) return {Verdict::again, EREMOTEIO, answer.problem};
      return {Verdict::failed, EOPNOTSUPP,
              "it answers all of the object where a range was asked for; have another server "
              "serve it"};
    }
    const auto range = parse_range(answer.range);
    const std::uint64_t first = offset + got, last = offset + bytes - 1;
    if (!range || range->first != first || range->last != last)
      return {Verdict::again, EREMOTEIO,
              fmt::format("it answers the range '{}' where {}-{} was asked for",
                          until_control(answer.range), first, last)};
    const Bytes before = got;
    if (answer.length && *answer.length != last - first + 1)
      return {Verdict::again, EREMOTEIO,
              fmt::format("it answers {} bytes where {} were asked for", *answer.length,
                          last - first + 1)};
    got += answer.in_memory;
    if (answer.is_whole && got == bytes) return {};
    return {Verdict::again, EREMOTEIO,
            answer.problem.empty() ? fmt::format("it answers {} bytes of {}", got, bytes)
                                   : answer.problem,
            got > before};
  };
  RangeAnswer answer = requests_.ask(asked, next, judge, stop);
  answer.bytes = answer.error == 0 ? bytes : 0;
  return answer;
}

std::shared_ptr<ObjectStore> open_store(std::string_view text, const StoreSettings& settings) {
  Url url;
  if (const std::string problem = parse_url(text, url); !problem.empty())
    throw StoreError(fmt::format("{}: {}", without_user(text), problem));
  return std::make_shared<HttpStore>(std::string(text), std::move(url), settings);
}

}  // namespace batchflow::objects
