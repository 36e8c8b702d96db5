// state STEPS: state of C++ that no program saves by itself: statics, thread_local, containers, streams half read and
// half written, and an exception that is in flight through frames which send messages.
#include <mpi.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

int rank, ranks, alive;

struct Counted {
  std::string text;
  explicit Counted(std::string text) : text(std::move(text)) { alive++; }
  Counted(const Counted &other) : text(other.text) { alive++; }
  ~Counted() { alive--; }
};

struct Failure : std::runtime_error {
  int code;
  Failure(const std::string &what, int code) : std::runtime_error(what), code(code) {}
};

struct Shape {
  virtual ~Shape() = default;
  virtual double size() const = 0;
};
struct Square : Shape {
  double side;
  explicit Square(double side) : side(side) {}
  double size() const override { return side * side; }
};
struct Circle : Shape {
  double radius;
  explicit Circle(double radius) : radius(radius) {}
  double size() const override { return 3.0 * radius * radius; }
};

const std::string &greeting() {
  static const std::string text = "made once by rank " + std::to_string(rank);
  return text;
}

thread_local std::vector<int> local_numbers{1, 2, 3};

int exchange(int mine) {
  int theirs = 0;
  MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % ranks, 4, &theirs, 1, MPI_INT, (rank + ranks - 1) % ranks, 4,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return theirs;
}

// Messages go before the throw, while the stack unwinds, and in the handler.
int deep(int depth, int step) {
  Counted guard("frame " + std::to_string(depth));
  struct Sends {
    int step, &got;
    ~Sends() { got += exchange(step); }
  };
  int got = 0;
  if (depth == 0) throw Failure("step " + std::to_string(step), exchange(step));
  try {
    Sends on_the_way{step + depth, got};
    return deep(depth - 1, step);
  } catch (Failure &failure) {
    failure.code += exchange(depth) + got;
    if (depth == 3) return failure.code + static_cast<int>(std::string(failure.what()).size());
    throw;
  }
}

} // namespace

int main(int count, char **arguments) {
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int steps = std::stoi(arguments[1]);
  const std::string name = "stream." + std::to_string(rank);
  {
    std::ofstream made(name + ".in");
    for (int i = 0; i < steps; i++) made << i * 7 % 1000 << ' ' << "word" << i << std::string(60, ' ') << '\n';
  }
  std::ifstream in(name + ".in");
  std::ofstream out(name + ".out");
  std::map<std::string, std::vector<double>> table;
  std::unordered_map<int, std::unique_ptr<Shape>> shapes;
  std::vector<Counted> counted;
  std::mt19937_64 random(static_cast<unsigned>(rank) + 5);
  std::ostringstream text;
  std::function<double(int)> function;
  long sum = 0;
  for (int step = 0; step < steps; step++) {
    int number;
    std::string word;
    in >> number >> word;
    table[word.substr(0, 5)].push_back(number + 0.5);
    if (step % 2 == 0)
      shapes[step % 97] = std::make_unique<Square>(step % 10);
    else
      shapes[step % 97] = std::make_unique<Circle>(step % 10);
    function = [step, scale = shapes[step % 97]->size()](int at) { return scale * at + step; };
    if (counted.size() > 50) counted.erase(counted.begin(), counted.begin() + 25);
    counted.emplace_back(word + greeting());
    local_numbers.push_back(static_cast<int>(random() % 100));
    sum += deep(3, step) + exchange(number) + static_cast<long>(function(2)) + local_numbers.back();
    text.str(std::to_string(sum));
    out << step << ' ' << text.str() << ' ' << table.size() << std::endl;
    sum %= 1000003;
  }
  in.close();
  out.close();
  for (const auto &[word, numbers] : table) sum += static_cast<long>(numbers.size()) * static_cast<long>(word.back());
  long total = 0, mine = sum + static_cast<long>(local_numbers.size()) + alive - static_cast<long>(counted.size());
  MPI_Reduce(&mine, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::cout << "sum " << total << " of " << ranks << " ranks" << std::endl;
  MPI_Finalize();
}
