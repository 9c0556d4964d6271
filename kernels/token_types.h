// Calls `use` with a value of each of two token types.
#pragma once

#include "kernels/rows.h"

namespace batchflow::kernels {

template <class Use>
void with_token(Token token, Use&& use) {
  if (token == Token::u16) return use(std::uint16_t{});
  if (token == Token::i32) return use(std::int32_t{});
  use(std::int64_t{});
}
template <class Use>
void with_tokens(Token from, Token to, Use&& use) {
  with_token(from, [&](auto in) { with_token(to, [&](auto out) { use(in, out); }); });
}

}  // namespace batchflow::kernels
