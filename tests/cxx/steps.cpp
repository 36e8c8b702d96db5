// The arguments and results of a run that ends before its last step.
//
//     steps SPACE
#include <cstdio>
#include <cstdlib>
#include <mainstay.hpp>
#include <stdexcept>
#include <string>

namespace {

[[noreturn]] void wrong(const std::string &what) {
  std::printf("WRONG: %s\n", what.c_str());
  std::exit(1);
}

// The end of a run: its result or its exception.
template <class Layout, class Step> std::string ended(mainstay::session &session, Layout &&layout, Step &&step) {
  try {
    session.run(layout, step);
    return "done";
  } catch (const mainstay::error &e) {
    return std::string(e.status_name()) + ": " + e.what();
  } catch (const std::exception &e) {
    return e.what();
  }
}

void expect(const std::string &found, const std::string &expected) {
  if (found != expected) wrong(found + ", expected: " + expected);
}

} // namespace

int main(int, char **argv) {
  mainstay::options options;
  options.every_steps = 1;
  double field = 0;
  const auto layout = [&](mainstay::session &session) { session.protect("field", field); };
  const auto three = [&](mainstay::session &session, std::uint64_t step) {
    if (step == 3) return false;
    field = double(step);
    session.note("step", std::to_string(step));
    return true;
  };
  {
    auto session = mainstay::open_solo(argv[1], options);
    // An exception of a layout ends the run and is passed on.
    expect(ended(
               session, [](mainstay::session &) { throw std::runtime_error("cannot read the mesh"); }, three),
           "cannot read the mesh");
    const auto twice = [&](mainstay::session &session) { layout(session), layout(session); };
    if (ended(session, twice, three).rfind("DUPLICATE_NAME: ", 0) != 0) wrong("a refusal of the layout is another");
    expect(ended(session, layout, three), "done");
    // So is an exception of a step in the middle of a checkpoint; protected memory stays valid.
    const auto begins = [](mainstay::session &session, std::uint64_t) -> bool {
      session.begin(0);
      throw std::runtime_error("in the midst");
    };
    expect(ended(session, layout, begins), "in the midst");
    session.restore();
    if (field != 2) wrong("the field is of step " + std::to_string(field));
    expect(ended(session, layout, three), "done");
    session.close();
  }
  auto session = mainstay::open_solo(argv[1], options);
  const auto looks = [&](mainstay::session &session, std::uint64_t step) {
    if (step != 3) wrong("it goes on with step " + std::to_string(step));
    if (session.restored_note("step").value_or("none") != "2") wrong("a note did not come back");
    return false;
  };
  expect(ended(session, layout, looks), "done");
  session.close();
  std::printf("done\n");
}
