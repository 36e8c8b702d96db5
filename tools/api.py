"""Makes the guide's pages of all calls, one for each language, from the comments in the sources.

    .venv/bin/python tools/api.py

`make api` runs it. The page of Python needs the installed module.
"""

import inspect
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "guide" / "src"
WIDTH = 120


@dataclass
class Entry:
    name: str
    signature: str
    text: str


def pages():
    return {"c": c_page(), "cxx": cxx_page(), "fortran": fortran_page(), "python": python_page()}


def page(title, source, sections):
    """Markdown: a heading for each section and each entry, and the declaration below its text."""
    language = {"C": "c", "C++": "cpp", "Fortran": "fortran", "Python": "python"}[title]
    lines = [f"# All calls in {title}", "", f"Made from the comments in {source}.", ""]
    for heading, entries in sections:
        lines += [f"## {heading}", ""]
        for entry in entries:
            lines += [f"### {entry.name}", f"```{language}", entry.signature, "```"]
            lines += [entry.text, ""] if entry.text else [""]
    return "\n".join(lines).rstrip() + "\n"


def flowing(text):
    """A comment as paragraphs. A line that is indented belongs to an example."""
    paragraphs = []
    for part in re.split(r"\n\s*\n", textwrap.dedent(text).strip("\n")):
        is_example = all(line.startswith("    ") for line in part.splitlines())
        paragraphs.append(part if is_example else textwrap.fill(" ".join(part.split()), WIDTH, break_on_hyphens=False))
    # Brackets that are no link, and names in angles, mean something to Markdown.
    return re.sub(r"(?<!`)<(\w[\w*]*)>", r"\\<\1>", "\n\n".join(paragraphs))


# C


def c_page():
    sources = [
        ROOT / "capi" / name for name in ("include/mainstay.h", "mpi/mainstay_mpi.h", "include/mainstay_objects.h")
    ]
    core, mpi, objects = (list(c_entries(path.read_text())) for path in sources)
    is_open = lambda entry: entry.name == "mainstay_open_mpi"  # noqa: E731
    core += [entry for entry in mpi if is_open(entry)]
    for_adapters = [entry for entry in core if entry.text.startswith("For adapters:")]
    calls = [entry for entry in core if entry not in for_adapters and entry.signature.rstrip(";").endswith(")")]
    calls.sort(key=lambda entry: entry.name)
    types = [entry for entry in core if entry not in for_adapters and entry not in calls]
    adapters = [Entry(one.name, one.signature, upper(one.text.removeprefix("For adapters: "))) for one in for_adapters]
    sections = [("Calls", calls), ("Types", types), ("Objects that move", objects), ("For adapters", adapters)]
    return page("C", "`mainstay.h`, `mainstay_mpi.h` and `mainstay_objects.h`", sections)


def c_entries(text):
    """The declarations with a comment above them."""
    for comment, declared in documented(text, ""):
        if declared.startswith("typedef") and "{" in declared:
            name = re.search(r"\} (\w+);$", declared)
        else:
            declared = head_of(declared.removeprefix("MAINSTAY_SHIM ")) + ";"
            name = re.search(r"(\w+)\(", declared) or re.search(r"(\w+);", declared)
        if name and not declared.startswith("#"):
            yield Entry(name[1], declared, flowing(comment))


def documented(text, indent, alone=False):
    """The comments that begin after `indent`, each with the declaration below it: up to a line that ends it. `alone`:
    also declarations without a comment."""
    lines = iter(text.splitlines())
    comment = []
    for line in lines:
        if not line.startswith(indent) or line[len(indent) : len(indent) + 1] in ("", " "):
            comment = []
            continue
        inner = line[len(indent) :]
        if inner.startswith("//"):
            comment.append(re.sub("^// ?", "", inner))
        elif inner.startswith("/*"):
            comment = [inner]
            while "*/" not in comment[-1]:
                comment.append(next(lines))
            comment = [re.sub(r"^\s*(/\*|\*(?!/)) ?| ?\*/$", "", line) for line in comment]
            comment = [line.removesuffix("*/").rstrip() for line in comment]
        elif comment or (alone and inner[0].isalpha() and inner != "public:"):
            declared = [inner]
            is_block = inner.startswith(("typedef struct {", "typedef enum {"))
            while not (declared[-1].startswith("}") if is_block else re.search(r"[;{}]$", declared[-1])):
                declared.append(next(lines).removeprefix(indent))
            yield "\n".join(comment), "\n".join(declared)
            comment = []


def head_of(declared):
    """A declaration in one line, without a body, the values of members, or conditions on a template."""
    declared = re.sub(r", std::enable_if_t<.*?, int> = 0", "", " ".join(declared.split())).replace("{}", "\0")
    return re.sub(r" \{.*|;$| : .*", "", declared).replace("\0", "{}").strip()


def upper(text):
    return text[:1].upper() + text[1:]


# C++


def cxx_page():
    headers = [ROOT / "capi" / "include" / name for name in ("mainstay_values.hpp", "mainstay.hpp")]
    source = "".join(path.read_text().partition("\nnamespace mainstay {\n")[2] for path in headers)
    source = re.sub(r"^namespace detail \{\n.*?^\}\s+// namespace detail\n", "", source, flags=re.M | re.S)
    source += (ROOT / "capi" / "mpi" / "mainstay_mpi.hpp").read_text()
    sections = []
    bodies = dict(re.findall(r"^(?:template <.*> )?(?:class|struct) (\w+)[^{\n]*\{\n(.*?)^\};", source, re.M | re.S))
    for comment, declared in documented(source, ""):
        declared, text = head_of(declared).removeprefix("inline "), flowing(comment)
        if kind := re.search(r"^(?:template <.*> )?(?:class|struct) (\w+)", declared):
            body = bodies.get(kind[1], "")
            members = list(cxx_members(body))
            whole = f"{declared} {{\n{body}}};" if body and not members else declared + ";"
            sections.append((f"mainstay::{kind[1]}", [Entry(kind[1], whole, text), *members]))
        elif name := re.match(r"[\w:]+ (\w+)\(", declared):
            sections.append((f"mainstay::{name[1]}", [Entry(f"{name[1]}()", declared + ";", text)]))
    return page("C++", "`mainstay.hpp` and `mainstay_mpi.hpp`", sections)


def cxx_members(body):
    """The members with a comment above them, up to a private part."""
    for comment, declared in documented(re.split(r"^private:", body, flags=re.M)[0], "  ", alone=True):
        declared = head_of(declared)
        if (name := re.search(r"([~\w]+)\(", declared)) and not re.search("operator|= delete", declared):
            yield Entry(f"{name[1]}()", declared + ";", flowing(comment))


# Fortran


def fortran_page():
    sections = []
    for file, kind in (
        ("mainstay.f90", "mainstay_session"),
        ("mainstay_c.inc", "mainstay_options"),
        ("mainstay_reader.f90", "mainstay_reader"),
    ):
        source = fortran_source(file)
        procedures = {entry.name: entry for entry in fortran_procedures(source)}
        before, body = re.split(rf"^  (?=type\b[^\n]*:: {kind}$)", source, maxsplit=1, flags=re.M)
        body = body[: body.index("end type") + len("end type")]
        comment = re.split(r"^(?!  ! )", before, flags=re.M)[-2]
        bound = list(fortran_bound(body, procedures))
        signature = f"type({kind})" if "private" in body else textwrap.dedent("  " + body)
        sections.append((kind, [Entry(kind, signature, fortran_text(comment)), *bound]))
        free = [entry for name, entry in procedures.items() if name.startswith("mainstay_")]
        if free:
            sections.append((f"Procedures of `{file.removesuffix('.f90')}`", free))
    return page("Fortran", "`mainstay.f90` and `mainstay_reader.f90`", sections)


def fortran_source(file):
    """The text of a file, with the files that it includes inside a module."""
    path = ROOT / "capi" / "fortran" / file
    included = lambda line: path.with_name(line[1]).read_text()  # noqa: E731
    return re.sub(r'^  include "(.*)"$', included, path.read_text(), flags=re.M)


def fortran_procedures(source):
    comment, lines = [], iter(source.partition("\ncontains\n")[2].splitlines())
    for line in lines:
        head = re.match(r"  (?:recursive |pure )*((?:\w+ )?(?:subroutine|function) (\w+)\(.*)", line)
        if line.startswith("  ! "):
            comment.append(line)
        elif head:
            declared = [head[1]]
            while declared[-1].endswith("&"):
                declared[-1:] = [declared[-1].removesuffix("&").strip() + " " + next(lines).strip()]
            while (line := next(lines)).startswith("    "):
                if ("intent(" in line or "procedure(" in line) and ":: self" not in line:
                    declared.append("  " + line.strip())
            yield Entry(head[2], "\n".join(declared), fortran_text("\n".join(comment)))
            comment = []
        else:
            comment = []


def fortran_bound(body, procedures):
    """The procedures of a type under their public names."""
    for line in re.findall(r"^    (procedure|generic) (?:, public )?:: (.*)$", body, re.M):
        name, _, target = line[1].partition("=>")
        for public in name.split(","):
            found = [procedures[one.strip()] for one in (target or public).split(",") if one.strip() in procedures]
            # One of several for different kinds of numbers has the comment.
            if entry := next((one for one in found if one.text), found[0] if found else None):
                signature = re.sub(rf"\b{entry.name}\(self(, )?", f"{public.strip()}(", entry.signature, count=1)
                yield Entry(public.strip(), signature, entry.text)


def fortran_text(comment):
    return flowing(re.sub(r"^ *! ?", "", comment, flags=re.M))


# Python


def python_page():
    import mainstay
    from mainstay import objects, pfs

    free = [
        python_entry(name, getattr(mainstay, name))
        for name in sorted(mainstay.__all__)
        if callable(getattr(mainstay, name))
    ]
    classes = [name for name in sorted(mainstay.__all__) if inspect.isclass(getattr(mainstay, name))]
    errors = [name for name in classes if issubclass(getattr(mainstay, name), BaseException)]
    calls = [entry for entry in free if entry.name.removesuffix("()") not in classes]
    sections = [("mainstay", calls)]
    sections += [(name, list(python_members(getattr(mainstay, name)))) for name in classes if name not in errors]
    sections.append(("Errors", [python_entry(name, getattr(mainstay, name)) for name in errors]))
    for module in (objects, pfs):
        sections.append(
            (
                module.__name__,
                [Entry(module.__name__, f"from mainstay import {module.__name__[9:]}", flowing(module.__doc__ or ""))],
            )
        )
        for name in module.__all__:
            value = getattr(module, name)
            members = list(python_members(value)) if inspect.isclass(value) else [python_entry(name, value)]
            sections.append((f"{module.__name__}.{name}", members))
    return page("Python", "the modules `mainstay`, `mainstay.objects` and `mainstay.pfs`", sections)


def python_members(kind):
    yield python_entry(kind.__name__, kind)
    for name, member in sorted(vars(kind).items()):
        if not name.startswith("_") and (callable(member) or inspect.isdatadescriptor(member)):
            yield python_entry(name, member)


def python_entry(name, value):
    text = flowing(inspect.getdoc(value) or "")
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        return Entry(name, f"class {name}({bases})" if bases else f"class {name}", text)
    if not callable(value):
        return Entry(name, name, text)
    try:
        signature = str(plain(inspect.signature(value)))
    except ValueError:
        signature = "(...)"
    return Entry(f"{name}()", f"{name}{re.sub(r'[(]self(, )?', '(', signature, count=1)}", text)


def plain(signature):
    """A signature without types, which Python prints differently from version to version."""
    parameters = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


if __name__ == "__main__":
    for language, text in pages().items():
        (PAGES / f"api-{language}.md").write_text(text)
