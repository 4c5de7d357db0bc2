// The call of a layer: today's in Python, or, where a plan of this product is known and everything
// that it rests on still holds, one launch of libreprolab_nf4.so.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "reprolab_nf4/csrc/layers/exchange.hpp"
#include "reprolab_nf4/csrc/layers/layer.hpp"
#include "reprolab_nf4/csrc/layers/object.hpp"
#include "reprolab_nf4/csrc/layers/plan.hpp"

namespace reprolab::layers {

/// A function that returns `idle` while PyTorch's operators are what they seem: none is recorded,
/// transformed, or replaced.
struct Guard {
  Ref function, idle;
};

/// That a module's dictionary has this value, by identity, while the same holds.
struct Setting {
  Ref dictionary, name, value;
};

/// What torch and install() give, as in layers.py.
struct Given {
  Ref forward;  ///< bitsandbytes' Linear4bit.forward
  Ref make;     ///< the same, and plans the product: make(layer, x)
  Reader reader;
  Classes classes;
  std::vector<Guard> guards;
  std::vector<Setting> settings;
  Ref grad_is_enabled;
  Ref allocate_on_cpu, allocate_on_gpu;  ///< (sizes, strides, type) -> tensor
  Ref byte_type;
  std::int64_t max_rows;
};

class Calls {
 public:
  explicit Calls(Given given) : given_(std::move(given)) {}

  /// The layer's output; null with an exception.
  PyObject* call(PyObject* module, PyObject* x);
  PyObject* call_while_idle(PyObject* module, PyObject* x);
  /// Whether PyTorch's operators do nothing else than compute, and close() was not called.
  bool is_idle();
  /// The same by the plan; null without an exception where there is none, or it fails.
  PyObject* planned(PyObject* module, PyObject* x);
  /// Whether the layer is as it was when it was bound. Not null: no exception.
  bool is_bound(PyObject* module);
  /// Forgets the layer's plans. `facts` and `arrays` are lists of tuples. False, without an
  /// exception, where an array cannot be read.
  bool bind(PyObject* module, PyObject* facts, PyObject* arrays);
  /// Takes a plan, or None.
  bool add(PyObject* module, PyObject* x, PyObject* plan);
  /// Of a module that has ended.
  void forget(PyObject* weak);
  /// From then on every call is bitsandbytes' own.
  void close();

  Ref weak_callback;  ///< Calls forget().

 private:
  enum class Decision { forward, make, run };
  struct Workspace {
    exchange::Device device;
    void* stream;
    void* first;
    std::uint64_t bytes;
    Ref tensor;
  };

  bool needs_gradient(PyObject* x, const Layer& layer, const Arrays& arrays);
  bool read(PyObject* x, exchange::Tensor& view, Product& product);
  std::shared_ptr<Layer> layer_of(PyObject* module);
  Decision decide(PyObject* module, PyObject* x, const Product& wanted, Arrays& arrays, Ref& plan);
  Decision attempt(PyObject* module, PyObject* x, Ref& output);
  Ref run(Plan& plan, const exchange::Tensor& x);
  Ref output_for(Plan& plan, const exchange::Tensor& x);
  Ref allocate(const exchange::Device& device, PyObject* arguments, void*& first);
  Workspace* workspace_for(const Plan& plan, const exchange::Device& device, void* stream);
  PyObject* forward(PyObject* module, PyObject* x);

  Given given_;
  bool is_open_ = true;
  /// Shared, because a layer that is looked at may be forgotten by what Python runs meanwhile.
  std::unordered_map<PyObject*, std::shared_ptr<Layer>> layers_;
  std::vector<Workspace> workspaces_;
};

}  // namespace reprolab::layers
