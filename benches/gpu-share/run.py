#!/usr/bin/env python3
"""Real MPI programs whose messages, as their own calls say, are put on the NVLinks of a double: see benches/gpu-share.sh."""
import json, mmap, os, re, shutil, signal, struct, subprocess, sys, tempfile, time, urllib.parse, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FROM = os.path.abspath(os.environ.get("FROM", os.path.join(ROOT, "target/release")))
HERE = os.path.dirname(os.path.abspath(__file__))
LINKS, RANKS = 18, 64
# What a call says of the messages that it makes, by positions of its parameters: as the standard has them.
RULES = {**{n: "message(a1, a2, a3, a5);" for n in ("Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend")},
         "Sendrecv": "message(a1, a2, a3, a10);", "Alltoall": "block_to_others(a1, a2, a6);"}


def generate(mpicc, folder):
    """Wrappers of all functions of the installed mpi.h that have a twin, and macros that lead the program to them."""
    text = subprocess.run([mpicc, "-E", "-P", "-include", "mpi.h", "-x", "c", "/dev/null"], capture_output=True, text=True, check=True).stdout
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    found = dict(re.findall(r"\bint\s+(P?MPI_\w+)\s*\(([^;{}]*)\)\s*;", text))
    wrappers, macros = [], ["void meter_begin(int rank);"]
    for name, parameters in sorted(found.items()):
        short = name.removeprefix("MPI_")
        if not name.startswith("MPI_") or "P" + name not in found or "..." in parameters or "(*" in parameters:
            continue
        kinds = [] if parameters.strip() in ("", "void") else parameters.split(",")
        declared = []
        for place, kind in enumerate(kinds):
            array = "[]" * kind.count("[") if kind.count("[") < 2 else kind[kind.index("["):]
            plain = kind.split("[")[0].strip()
            kind = re.sub(r"\b(?!int\b|char\b|const\b|double\b|void\b|long\b)(\w+)$", "", plain) if re.search(r"[\s*]\w+$", plain) else plain
            declared.append(f"{kind} a{place}{array}")
        names = ", ".join(f"a{place}" for place in range(len(kinds)))
        # Weak: MPICH declares functions that only its Fortran library has.
        wrappers.append(f"#pragma weak MPI_{short}\nint meter_{short}({', '.join(declared) or 'void'})\n{{\n\tint result = MPI_{short}({names});\n\tcalled();\n"
                        f"\tif (result == MPI_SUCCESS) {{ {RULES.get(short, '')} }}\n\treturn result;\n}}\n")
        macros.append(f"int meter_{short}({', '.join(declared) or 'void'});\n#define MPI_{short} meter_{short}")
    open(f"{folder}/wrappers.inc", "w").write("".join(wrappers))
    open(f"{folder}/meter.h", "w").write("\n".join(macros) + "\n")
    for rule in RULES:
        assert f"meter_{rule}(" in "".join(wrappers), f"{mpicc}: no {rule} in mpi.h"
    program = f"{folder}/program"
    subprocess.run([mpicc, "-O2", "-w", "-I", folder, "-o", program, f"{HERE}/program.c", f"{HERE}/meter.c"], check=True)
    return program, len(wrappers)


class Site:
    def __init__(self, folder):
        self.folder, self.children = folder, []
        open(f"{folder}/server.toml", "w").write("[query]\nlisten = '127.0.0.1:0'\n[collect]\nlisten = '127.0.0.1:0'\n")
        server = self.start([f"{FROM}/throughline", "serve", "--log-level", "warn", "--state-dir", f"{folder}/state", "--config", f"{folder}/server.toml"])
        said = {}
        while "unix" not in said:
            line = server.stdout.readline().strip()
            assert line, "the server ended"
            if line.startswith("listening "):
                what, address = line.removeprefix("listening ").split("=", 1)
                said["unix" if address.startswith("unix:") else what] = address
        self.url, self.socket = "http://" + said["query"], f"{folder}/n1/run/mpi.sock"
        shutil.copy(f"{ROOT}/crates/gpu/scenarios/hgx-h200.scenario", f"{folder}/node.scenario")
        self.traffic({}, {})
        library = f"{FROM}/lib/throughline/libnvidia-ml.so.1"
        # The double is of the tests: it is no part of what make build makes.
        if not os.path.exists(library):
            subprocess.run(["make", "-s", "-C", f"{ROOT}/crates/gpu/testdouble", f"OUT={FROM}/lib/throughline"], check=True)
        agent = self.start([f"{FROM}/throughline-agent", "run", "--log-level", "warn", "--state-dir", f"{folder}/n1"], {
            "THROUGHLINE__NODE": "n1", "THROUGHLINE__HTTP__LISTEN": "127.0.0.1:0", "THROUGHLINE__DELIVERY__COLLECTOR": "http://" + said["collect"],
            "THROUGHLINE__NVML__LIBRARY": library, "THROUGHLINE_NVML_SCENARIO": f"{folder}/node.scenario"})
        assert agent.stdout.readline(), "the agent ended"

    def start(self, command, environment={}):
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.children.append(child)
        return child

    def traffic(self, carried, processes):
        lines = [f"process {gpu} {pid}\n" for pid, gpu in processes.items()]
        lines += [f"traffic {gpu} 0-{LINKS - 1} tx={sent // LINKS} rx={received // LINKS}\n" for gpu, (sent, received) in carried.items()]
        open(f"{self.folder}/new", "w").write("".join(lines))
        os.rename(f"{self.folder}/new", f"{self.folder}/traffic.txt")

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}/api/v1{path}", timeout=30) as answer:
            return json.load(answer)

    def stop(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
            child.wait()


def run(site, carried, mpi, program, way, ranks, seconds, stranger):
    """One run; what MPI's messages and the stranger put on NVLinks, and what is said of it."""
    meter = f"{site.folder}/meter"
    open(meter, "wb").write(bytes(8 * (RANKS + RANKS * RANKS + 1)))
    known = {job["job_key"] for job in site.get("/jobs?state=ended")["jobs"]}
    options = ["--oversubscribe", "--mca", "btl", "self,vader"] if mpi == "openmpi" else []
    environment = {"METER_FILE": meter, "THROUGHLINE_SOCKET": site.socket, "THROUGHLINE_LIB_DIR": f"{FROM}/lib/throughline",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    child = subprocess.Popen([f"mpirun.{mpi}", *options, "-n", str(ranks), f"{FROM}/throughline-exec", program, way, str(seconds)],
                             stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    before, begin, strange = {gpu: list(both) for gpu, both in carried.items()}, None, 0
    with open(meter, "r+b") as file, mmap.mmap(file.fileno(), 0) as at:
        while True:
            is_over = child.poll() is not None
            numbers = struct.unpack(f"{RANKS + RANKS * RANKS}q", at[: 8 * (RANKS + RANKS * RANKS)])
            pids, rows = numbers[:RANKS], numbers[RANKS:]
            processes = {pid: rank for rank, pid in enumerate(pids) if pid}
            if len(processes) == ranks and begin is None:
                begin = time.monotonic()
            if begin and not is_over:
                strange = int((time.monotonic() - begin) * stranger)
            for gpu in range(8):
                sent = sum(rows[gpu * RANKS + to] for to in range(RANKS) if to != gpu)
                received = sum(rows[source * RANKS + gpu] for source in range(RANKS) if source != gpu)
                # The stranger copies from GPU 0 to 1.
                carried[gpu] = (before[gpu][0] + sent + (strange if gpu == 0 else 0), before[gpu][1] + received + (strange if gpu == 1 else 0))
            site.traffic(carried, processes)
            if is_over:
                break
            time.sleep(0.05)
    assert child.returncode == 0, f"{way} under {mpi}: status {child.returncode}"
    mpi_bytes = sum(rows[a * RANKS + b] for a in range(RANKS) for b in range(RANKS) if a != b)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        new = [job for job in site.get("/jobs?state=ended")["jobs"] if job["job_key"] not in known]
        if new:
            time.sleep(3)
            said = site.get(f"/jobs/{urllib.parse.quote(new[0]['job_key'], safe='')}/gpu-traffic")
            return mpi_bytes, strange, said["hosts"][0]["totals"] if said["hosts"] else None
        time.sleep(1)
    raise SystemExit(f"the job has not ended at the server: {site.get('/jobs')['jobs']}")


def main():
    seconds = float(os.environ.get("SECONDS_EACH", "25"))
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    site, missed = Site(folder), False
    print(f"{'program':24} {'ranks':>5} {'MPI':>9} {'stranger':>9} {'explained, truth':>17} {'shown':>7} {'residual off by':>16}")
    try:
        carried = {gpu: (0, 0) for gpu in range(8)}
        for mpi in os.environ.get("MPI", "openmpi mpich").split():
            os.makedirs(f"{folder}/{mpi}")
            program, wrappers = generate(f"mpicc.{mpi}", f"{folder}/{mpi}")
            for way, ranks, stranger in (("exchange", 8, 0), ("alltoall", 4, 0), ("pairs", 8, 100e6), ("exchange", 4, 300e6), ("alltoall", 8, 2e9)):
                sent, strange, said = run(site, carried, mpi, program, way, ranks, seconds, stranger)
                truth = sent / (sent + strange)
                shown = said["explained_share"] if said else None
                off = abs(said["residual_bytes"] - strange) / (sent + strange) if said else None
                is_right = said is not None and abs(shown - truth) <= 0.05 and off <= 0.05
                missed |= not is_right
                print(f"{way + ' ' + mpi:24} {ranks:5} {sent / 1e9:6.2f} GB {strange / 1e9:6.2f} GB {truth:17.1%} "
                      f"{'-' if shown is None else format(shown, '.1%'):>7} {'-' if off is None else format(off, '.2%'):>16}{'' if is_right else '  MISSED'}", flush=True)
            print(f"{wrappers} functions of mpicc.{mpi}'s mpi.h were metered")
    finally:
        site.stop()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(2 if missed else 0)


main()
