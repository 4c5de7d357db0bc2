// torch.nn.Module.__call__ in C.
#include <algorithm>
#include <array>
#include <vector>

#include "reprolab_nf4/csrc/layers/calls.hpp"
#include "reprolab_nf4/csrc/layers/object.hpp"

namespace reprolab::layers {
namespace {

/// A class attribute. Code that reads the attribute, such as torch.compile, gets the function
/// `in_python`, which also handles all calls that run more than the layer's forward.
struct LayerCall {
  Ref calls_object;  ///< Keeps `calls`.
  Calls* calls;
  Ref in_python;
  Ref forward;                    ///< Linear4bit.forward, set by install()
  Ref layer, base;                ///< Linear4bit, and torch.nn.Linear
  Ref module_call, call_impl;     ///< The original __call__ and _call_impl of Module
  Ref tracing_state;              ///< A function that returns None while torch.jit traces nothing
  std::vector<Ref> global_hooks;  ///< Dictionaries of torch.nn.modules.module

  bool runs_forward_alone(PyTypeObject* type) const;
};

struct LayerCallObject {
  PyObject_HEAD LayerCall* call;
};

const LayerCall& call_of(PyObject* object) {
  return *reinterpret_cast<LayerCallObject*>(object)->call;
}

bool is_empty(PyObject* dictionary) {
  return dictionary != nullptr && PyDict_Check(dictionary) && PyDict_Size(dictionary) == 0;
}

bool has(PyObject* owner, PyObject* name, const Ref& value) {
  const auto attribute = Ref::of_new(PyObject_GetAttr(owner, name));
  if (!attribute) PyErr_Clear();
  return attribute && attribute.get() == value.get();
}

/// Whether the layer object itself, not its class, makes a call run more than forward: hooks, or
/// methods of its own.
bool runs_more(PyObject* own) {
  static const std::array hooks{PyUnicode_InternFromString("_forward_hooks"),
                                PyUnicode_InternFromString("_forward_pre_hooks"),
                                PyUnicode_InternFromString("_backward_hooks"),
                                PyUnicode_InternFromString("_backward_pre_hooks")};
  static const std::array methods{PyUnicode_InternFromString("forward"),
                                  PyUnicode_InternFromString("_call_impl"),
                                  PyUnicode_InternFromString("_compiled_call_impl")};
  return std::ranges::any_of(methods, [&](PyObject* name) { return item(own, name) != nullptr; }) ||
         !std::ranges::all_of(hooks, [&](PyObject* name) { return is_empty(item(own, name)); });
}

PyObject* call(PyObject* self, PyObject* arguments, PyObject* by_name) {
  const LayerCall& call = call_of(self);
  if (PyTuple_Size(arguments) == 2 && (by_name == nullptr || PyDict_Size(by_name) == 0)) {
    PyObject* const layer = PyTuple_GetItem(arguments, 0);
    PyObject* const x = PyTuple_GetItem(arguments, 1);
    if (!runs_more(dictionary_of(layer)) && call.runs_forward_alone(Py_TYPE(layer))) {
      return call.calls->call(layer, x);
    }
    PyErr_Clear();
  }
  return PyObject_Call(call.in_python.get(), arguments, by_name);
}

PyObject* get(PyObject* self, PyObject* object, PyObject* type) {
  PyObject* const in_python = call_of(self).in_python.get();
  void* const slot = PyType_GetSlot(Py_TYPE(in_python), Py_tp_descr_get);
  if (slot == nullptr) return Py_NewRef(in_python);
  return reinterpret_cast<descrgetfunc>(slot)(in_python, object, type);
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *calls, *in_python, *forward, *layer, *module_call, *call_impl, *tracing, *global_hooks;
  if (!PyArg_ParseTuple(arguments, "O!OOOOOOO!", calls_type(), &calls, &in_python, &forward, &layer,
                        &module_call, &call_impl, &tracing, &PyList_Type, &global_hooks)) {
    return nullptr;
  }
  const auto base = Ref::of_new(PyObject_GetAttrString(layer, "__base__"));
  if (!base) return nullptr;
  PyObject* const object = PyType_GenericAlloc(type, 0);
  if (object == nullptr) return nullptr;
  auto* const call = new LayerCall{
      Ref::to(calls), &calls_of(calls),     Ref::to(in_python), Ref::to(forward), Ref::to(layer),
      base,           Ref::to(module_call), Ref::to(call_impl), Ref::to(tracing), {}};
  for (Py_ssize_t i = 0; i < PyList_Size(global_hooks); ++i) {
    call->global_hooks.push_back(Ref::to(PyList_GetItem(global_hooks, i)));
  }
  reinterpret_cast<LayerCallObject*>(object)->call = call;
  return object;
}

void free_call(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  delete reinterpret_cast<LayerCallObject*>(object)->call;
  PyObject_Free(object);
  Py_DECREF(type);
}

/// With runs_more(), checks everything that torch.nn.Module._call_impl does. Other classes, which
/// may inherit another __call__, are called in Python.
bool LayerCall::runs_forward_alone(PyTypeObject* type) const {
  static PyObject* const call_name = PyUnicode_InternFromString("__call__");
  static PyObject* const call_impl_name = PyUnicode_InternFromString("_call_impl");
  static PyObject* const forward_name = PyUnicode_InternFromString("forward");
  auto* const of_class = reinterpret_cast<PyObject*>(type);
  const auto trace = Ref::of_new(PyObject_CallNoArgs(tracing_state.get()));
  return of_class == layer.get() && trace.get() == Py_None &&
         std::ranges::all_of(global_hooks,
                             [](const Ref& hooks) { return is_empty(hooks.get()); }) &&
         has(of_class, forward_name, forward) && has(of_class, call_impl_name, call_impl) &&
         has(base.get(), call_name, module_call);
}

}  // namespace

PyTypeObject* layer_call_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(free_call)},
                                {Py_tp_call, reinterpret_cast<void*>(call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(get)},
                                {0, nullptr}};
  // With this flag, Python calls __call__ without binding it to the object first.
  static PyType_Spec spec = {"reprolab_nf4._layers.LayerCall", sizeof(LayerCallObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace reprolab::layers
