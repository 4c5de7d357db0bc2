#include "profiling/instrument.hpp"

#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

TEST(Instrument, NameAndParseAreInverse) {
  for (const auto instrument : {Instrument::none, Instrument::events, Instrument::activity}) {
    EXPECT_EQ(parse_instrument(name(instrument)), instrument);
  }
}

TEST(Instrument, ParseSaysWhatItExpectsAndGot) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { parse_instrument("event"); }),
            "--instrument: expected none, events or activity; got 'event'");
  EXPECT_EQ(message_of<std::invalid_argument>([] { parse_instrument(""); }),
            "--instrument: expected none, events or activity; got ''");
}

}  // namespace
}  // namespace reprolab::profiling
