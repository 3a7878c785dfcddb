#!/usr/bin/env python3
"""A miniature cluster on one Linux machine: hosts are network namespaces, cables are shaped virtual ones.

    testbed.py up --hosts=8 --topology=tree --rate-mbit=200 --oversubscription=2
    testbed.py up --hosts=4 --topology=sites --between-mbit=20 --far-delay-us=10000
    testbed.py run -- build/release/experiments/program/twofold bench all_reduce --fabric=mpi -e 1M
    testbed.py down

                 [root]                     tree: hosts below leaves, leaves below a root; an uplink has the rate of its
             uplink  uplink                       leaf's hosts together, divided by --oversubscription
            [leaf0]  [leaf1]                star: hosts below one switch
            | | | |  | | | |
            h0 .. h3 h4 .. h7               sites: as tree, but an uplink is a wide-area link of --between-mbit
                                            every cable: --rate-mbit each way, token buckets at both ends

`run` starts one rank on each host with mpirun: each host has its own address, name and network, all share this machine's
cores and files. Programs that sleep (twofold's device EMULATED) need few cores: two carry eight hosts.

What decides whether figures mean something:
  rate     hosts x rate beyond about 1.6 Gbit/s at MTU 4000 (0.8 at 1500) on two cores, and the cores are what is measured
  delay    packets wait where they arrive, --delay-us from hosts of the same leaf, --far-delay-us from others
  cores    `run --realtime` puts ranks before whatever else the machine does (chrt -r 10)
  waiting  Open MPI asks its sockets without end; a preloaded library lets ranks sleep instead (--spin: without it)

Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN), network namespaces, veth, bridges, tbf and, for delays, NFQUEUE; and the packages
iproute2, ethtool, iptables, util-linux, openmpi-bin. `up` says what is missing. It is taken down whole, also after a crash.
"""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
STATE = pathlib.Path("/run/twofold-testbed")
HELPERS = HERE.parent.parent.parent / "build/release/experiments/studies/testbed"
NEEDED = {"ip": "iproute2", "tc": "iproute2", "ethtool": "ethtool", "unshare": "util-linux", "chrt": "util-linux", "sysctl": "procps",
          "mpirun": "openmpi-bin"}
NEAR, FAR = 1, 2  # numbers of the delay queues
QUEUE_BYTES = "16mb"  # of a cable's end: nothing is ever dropped


class Problem(Exception):
    pass


def sh(*command, **options):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if result.returncode != 0:
        raise Problem(f"{shlex.join(map(str, command))}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def inside(space, *command):
    return sh("ip", "netns", "exec", space, *command)


class Plan:
    """What is asked for, and the names that follow from it."""

    def __init__(self, o):
        self.o = o
        self.hosts = range(o["hosts"])
        self.leaves = o["leaves"] if o["topology"] == "tree" else o.get("sites", 1) if o["topology"] == "sites" else 1
        self.per_leaf = -(-o["hosts"] // self.leaves)
        self.switch = f"{o['name']}-switch"

    def space(self, host):
        return f"{self.o['name']}-h{host}"

    def leaf(self, host):
        return host // self.per_leaf

    def address(self, host):
        return f"10.77.{host // 250}.{host % 250 + 1}"

    def uplink_mbit(self):
        if self.o["topology"] == "sites":
            return self.o["between_mbit"]
        return self.o["rate_mbit"] * self.per_leaf / self.o["oversubscription"]

    def folder(self):
        return STATE / self.o["name"]

    def delayed(self):
        return self.o["delay_us"] > 0 or self.o["far_delay_us"] > 0


def iptables():
    """NFQUEUE through nftables needs a module that small kernels lack; the older interface does not."""
    return shutil.which("iptables-legacy") or shutil.which("iptables")


RANGES = {"hosts": (2, 250), "rate_mbit": (1, 40000), "between_mbit": (1, 40000), "mtu": (600, 65000), "delay_us": (0, 1e6), "far_delay_us": (0, 1e6), "oversubscription": (0.1, 100)}


def check_options(o):
    for field, (least, most) in RANGES.items():
        if not least <= o[field] <= most:
            raise Problem(f"--{field.replace('_', '-')}={o[field]:g}: use {least:g} to {most:g}")
    if o["topology"] == "tree" and (o["leaves"] < 2 or o["hosts"] % o["leaves"] != 0):
        raise Problem(f"--leaves={o['leaves']}: use 2 or more that share {o['hosts']} hosts evenly")
    if o["topology"] == "sites" and (o["sites"] < 2 or o["hosts"] % o["sites"] != 0):
        raise Problem(f"--sites={o['sites']}: use 2 or more that share {o['hosts']} hosts evenly")
    if o["topology"] == "sites" and o["far_delay_us"] < o["delay_us"]:
        raise Problem(f"--far-delay-us={o['far_delay_us']:g}: use at least --delay-us={o['delay_us']:g}, since the link between sites adds to it")
    check_name(o["name"])


def check_name(name):
    if not 1 <= len(name) <= 6 or not name.isalnum():
        raise Problem(f"--name={name}: use 1 to 6 letters and digits")


def check(o, helpers):
    check_options(o)
    if os.geteuid() != 0:
        raise Problem("root's rights are needed (network namespaces, shaping); run it with sudo")
    packages = dict(NEEDED)
    missing = sorted({package for program, package in packages.items() if shutil.which(program) is None})
    if (o["delay_us"] or o["far_delay_us"]) and iptables() is None:
        missing.append("iptables")
    if missing:
        raise Problem(f"packages are missing: apt-get install {' '.join(missing)}")
    helper = helpers / "testbed_delay_line"
    if not helper.exists():
        raise Problem(f"{helper} is not there: build it (ninja testbed_delay_line testbed_idle_block) or say --helpers=DIR")
    probe = f"{o['name']}-probe"
    try:
        sh("ip", "netns", "add", probe)
        sh("ip", "-n", probe, "link", "add", "name", "probe", "type", "bridge")
        sh("ip", "-n", probe, "link", "add", "x", "type", "veth", "peer", "name", "y")
        inside(probe, "tc", "qdisc", "replace", "dev", "x", "root", "tbf", "rate", "100mbit", "burst", "8000", "limit", QUEUE_BYTES)
        if o["delay_us"] or o["far_delay_us"]:
            inside(probe, iptables(), "-w", "-A", "INPUT", "-j", "NFQUEUE", "--queue-num", NEAR)
    except Problem as e:
        raise Problem(f"this kernel, or this container's rights, lack what is needed: {e}") from e
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True)


# ---- Up ----
def end_of_cable(space, device, mbit, mtu):
    """No segmentation offloads, so that packets are what the cable carries, and a bucket of two of them."""
    inside(space, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off")
    inside(space, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit", "burst", 2 * (mtu + 14), "limit", QUEUE_BYTES)


def bridge(plan, name):
    sh("ip", "-n", plan.switch, "link", "add", name, "type", "bridge", "stp_state", 0, "forward_delay", 0, "mcast_snooping", 0)
    sh("ip", "-n", plan.switch, "link", "set", name, "mtu", plan.o["mtu"], "up")


def switches(plan):
    mtu = plan.o["mtu"]
    sh("ip", "netns", "add", plan.switch)
    sh("ip", "-n", plan.switch, "link", "set", "lo", "up")
    for leaf in range(plan.leaves):
        bridge(plan, f"leaf{leaf}")
    if plan.leaves == 1:
        return
    bridge(plan, "root")
    for leaf in range(plan.leaves):
        sh("ip", "-n", plan.switch, "link", "add", f"up{leaf}", "mtu", mtu, "type", "veth", "peer", "name", f"down{leaf}", "mtu", mtu)
        sh("ip", "-n", plan.switch, "link", "set", f"up{leaf}", "master", f"leaf{leaf}", "up")
        sh("ip", "-n", plan.switch, "link", "set", f"down{leaf}", "master", "root", "up")
        for device in (f"up{leaf}", f"down{leaf}"):
            end_of_cable(plan.switch, device, plan.uplink_mbit(), mtu)


def host(plan, h):
    o, space = plan.o, plan.space(h)
    sh("ip", "netns", "add", space)
    sh("ip", "-n", space, "link", "set", "lo", "up")
    sh("ip", "-n", space, "link", "add", "eth0", "mtu", o["mtu"], "type", "veth", "peer", "name", f"port{h}", "mtu", o["mtu"], "netns", plan.switch)
    sh("ip", "-n", plan.switch, "link", "set", f"port{h}", "master", f"leaf{plan.leaf(h)}", "up")
    sh("ip", "-n", space, "addr", "add", f"{plan.address(h)}/16", "dev", "eth0")
    sh("ip", "-n", space, "link", "set", "eth0", "up")
    end_of_cable(space, "eth0", o["rate_mbit"], o["mtu"])
    end_of_cable(plan.switch, f"port{h}", o["rate_mbit"], o["mtu"])
    window = 1 << 20  # bytes; bounds what a connection has under way
    inside(space, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno", "net.ipv4.tcp_slow_start_after_idle=0",
           "net.ipv4.tcp_no_metrics_save=1", f"net.ipv4.tcp_rmem=4096 {window // 2} {window}", f"net.ipv4.tcp_wmem=4096 {window // 4} {window}",
           f"net.ipv4.tcp_limit_output_bytes={4 * o['mtu']}")  # of a connection in its host's queue: others get their turn


def neighbours(plan):
    """Everybody's hardware address is known to all: no questions among the measured packets."""
    hardware = [inside(plan.space(h), "cat", "/sys/class/net/eth0/address").strip() for h in plan.hosts]
    for h in plan.hosts:
        batch = "".join(f"neigh replace {plan.address(g)} lladdr {hardware[g]} dev eth0 nud permanent\n" for g in plan.hosts if g != h)
        sh("ip", "-n", plan.space(h), "-batch", "-", input=batch)


def delays(plan, helpers):
    o = plan.o
    for h in plan.hosts:
        for g in plan.hosts:
            if g != h:
                queue = NEAR if plan.leaf(g) == plan.leaf(h) else FAR
                inside(plan.space(h), iptables(), "-w", "-A", "INPUT", "-i", "eth0", "-s", plan.address(g), "-j", "NFQUEUE", "--queue-num", queue)
    lines = [f"/run/netns/{plan.space(h)}:{queue}:{o[field]}" for h in plan.hosts for queue, field in ((NEAR, "delay_us"), (FAR, "far_delay_us"))]
    log = open(plan.folder() / "delay_line.log", "w")
    daemon = subprocess.Popen([str(helpers / "testbed_delay_line"), *lines], stdout=log, stderr=log, start_new_session=True)
    (plan.folder() / "delay_line.pid").write_text(str(daemon.pid))
    for _ in range(50):
        text = (plan.folder() / "delay_line.log").read_text()
        if "ready" in text:
            return
        if daemon.poll() is not None:
            raise Problem(f"the delay line did not start: {text.strip()}")
        time.sleep(0.1)
    raise Problem(f"the delay line did not become ready: {text.strip()}")


def up(o):
    helpers = pathlib.Path(o.pop("helpers"))
    o["far_delay_us"] = o["delay_us"] if o["far_delay_us"] is None else o["far_delay_us"]
    check(o, helpers)
    plan = Plan(o)
    if plan.folder().exists():
        raise Problem(f"a testbed \"{o['name']}\" is up (or was left behind); `testbed.py down --name={o['name']}` first")
    plan.folder().mkdir(parents=True)
    (plan.folder() / "state.json").write_text(json.dumps({**o, "helpers": str(helpers)}))
    names = "".join(f"{plan.address(h)} h{h}\n" for h in plan.hosts)
    (plan.folder() / "hosts").write_text("127.0.0.1 localhost\n" + names)
    try:
        switches(plan)
        for h in plan.hosts:
            host(plan, h)
        neighbours(plan)
        if plan.delayed():
            delays(plan, helpers)
    except BaseException:
        down({"name": o["name"]})
        raise
    print(describe(plan))


def describe(plan):
    o = plan.o
    leaves = "sites" if o["topology"] == "sites" else "leaves"
    shape = "a star" if plan.leaves == 1 else f"{plan.leaves} {leaves} of {plan.per_leaf}, uplinks of {plan.uplink_mbit():g} Mbit/s"
    return (f"testbed \"{o['name']}\": {o['hosts']} hosts, {shape}; {o['rate_mbit']} Mbit/s a host, MTU {o['mtu']}, "
            f"delay {o['delay_us']} us (far: {o['far_delay_us']})")


# ---- Down ----
def spaces(name):
    return [line.split()[0] for line in sh("ip", "netns", "list").splitlines() if line.startswith(f"{name}-")]


def end(pids):
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        time.sleep(0.2 if pids else 0)


def down(o):
    check_name(o["name"])
    folder = STATE / o["name"]
    pids = [int(pid) for space in spaces(o["name"]) for pid in sh("ip", "netns", "pids", space).split()]
    file = folder / "delay_line.pid"
    if file.exists():
        pid = int(file.read_text())
        command = pathlib.Path(f"/proc/{pid}/cmdline")
        if command.exists() and b"testbed_delay_line" in command.read_bytes():
            pids.append(pid)
    end(pids)
    for space in spaces(o["name"]):
        sh("ip", "netns", "del", space)
    shutil.rmtree(folder, ignore_errors=True)


# ---- Run ----
def load(name):
    file = STATE / name / "state.json"
    if not file.exists():
        raise Problem(f"no testbed \"{name}\" is up; `testbed.py up --name={name}` starts one")
    return Plan(json.loads(file.read_text()))


def agent(name, host_name, command):
    """What mpirun calls in ssh's place: a command on a host, in its network, with its name."""
    plan = load(name)
    inner = f"hostname {host_name}; mount --bind {plan.folder()}/hosts /etc/hosts; exec sh -c {shlex.quote(command)}"
    os.execvp("ip", ["ip", "netns", "exec", f"{name}-{host_name}", "unshare", "-u", "-m", "sh", "-c", inner])


def mpirun(plan, o):
    me = f"{shlex.quote(sys.executable)} {shlex.quote(str(HERE / 'testbed.py'))} agent={plan.o['name']}"
    ranks = o["ranks"] or plan.o["hosts"]
    hosts = ",".join(f"h{h}:1" for h in range(ranks))
    settings = {"plm_rsh_agent": me, "plm_rsh_no_tree_spawn": 1, "orte_keep_fqdn_hostnames": 1, "oob_tcp_if_include": "eth0", "btl": "tcp,self",
                "pml": "ob1", "btl_tcp_if_include": "eth0", "btl_tcp_eager_limit": o["eager_bytes"], **dict(s.split("=", 1) for s in o["mca"])}
    command = ["mpirun", "--allow-run-as-root", "-np", str(ranks), "--host", hosts, "--bind-to", "none", "--map-by", "node"]
    for key, value in settings.items():
        command += ["--mca", key, str(value)]
    if not o["spin"]:
        command += ["-x", f"LD_PRELOAD={plan.o['helpers']}/libtestbed_idle_block.so"]
    if o["realtime"]:
        command += ["chrt", "-r", "10"]
    return command + o["command"]


def run(o):
    plan = load(o["name"])
    if o["ranks"] and not 1 <= o["ranks"] <= plan.o["hosts"]:
        raise Problem(f"--ranks={o['ranks']}: the testbed has {plan.o['hosts']} hosts")
    if not o["command"]:
        raise Problem("which program? say `testbed.py run -- PROGRAM ARGUMENTS`")
    agent(o["name"], "h0", "cd " + shlex.quote(os.getcwd()) + "; exec " + shlex.join(mpirun(plan, o)))


CLUSTER = """# proto-message: twofold.cluster.Cluster
# The structure of testbed "{name}". `twofold calibrate --fabric=mpi --cluster=THIS --cluster-out=OTHER` under `testbed.py run` finds the figures.
name: "testbed-{name}"
summary: "{summary}"
source: "as configured"
device {{ kind: CPU_DEVICE name: "one core" memory_bytes: 4000000000 memory_bytes_per_second: 1e10 f32_flops_per_second: 5e10 bf16_flops_per_second: 5e10
          f64_flops_per_second: 2.5e10 launch_us: 0.2 kernel_us: 1 host_memory_bytes: 4000000000 }}
{network}
"""


def cluster(o):
    """A leaf's uplink is one cable of its hosts' rate over the oversubscription: as many cables of a host's rate as that is, sprayed. Of sites
    it is one site's structure; what joins them is part of a spec's fabric."""
    plan = Plan(o)
    link = f"link_gbytes_per_second: {o['rate_mbit'] / 8000:g}"
    if o["topology"] == "sites":
        network = (f"star {{ hosts: {plan.per_leaf} {link} latency_us: {o['delay_us']} }}\n# One site. Predict all with\n#   fabric {{ simulated {{ cluster: \"THIS\" "
                   f"sites {{ count: {plan.leaves} between_gbps: {o['between_mbit'] / 1000:g} latency_ms: {(o['far_delay_us'] - o['delay_us']) / 1000:g} }} }} }}")
    elif plan.leaves == 1:
        network = f"star {{ hosts: {o['hosts']} {link} latency_us: {o['delay_us']} }}"
    else:
        radix = plan.per_leaf * (1 + 1 / o["oversubscription"])
        if radix != int(radix):
            raise Problem(f"uplinks of {plan.per_leaf / o['oversubscription']:g} times a host's rate cannot be described: the leaf's hosts "
                          "over --oversubscription must be whole")
        network = (f"machines {{\n  nodes: {o['hosts']}\n  node {{ single {{}} devices: 1 nics: 0 }}\n  network {{ fat_tree {{ levels: 2 radix: {int(radix)} "
                   f"oversubscription: {o['oversubscription']:g} }} {link} }}\n}}\nrouting: \"spray\"")
    return CLUSTER.format(name=o["name"], summary=describe(plan).split(": ", 1)[1], network=network)


def print_cluster(o):
    print(cluster(load(o["name"]).o), end="")


def status(o):
    folders = sorted(STATE.iterdir()) if STATE.exists() else []
    for folder in folders:
        plan = load(folder.name)
        print(describe(plan))
        for space in spaces(folder.name):
            busy = sh("ip", "netns", "pids", space).split()
            if busy:
                print(f"  {space}: processes {' '.join(busy)}")
    if not folders:
        print("no testbed is up")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="action", required=True)

    def command(name, text):
        c = commands.add_parser(name, help=text, description=text)
        c.add_argument("--name", default="tf", help="of the testbed, where there are several (default tf)")
        return c

    c = command("up", "starts the hosts and their network")
    c.add_argument("--hosts", type=int, default=4)
    c.add_argument("--topology", choices=["star", "tree", "sites"], default="star")
    c.add_argument("--leaves", type=int, default=2, help="tree: switches that hosts hang on (default 2)")
    c.add_argument("--oversubscription", type=float, default=2, help="tree: rate of a leaf's hosts over its uplink's (default 2)")
    c.add_argument("--sites", type=int, default=2, help="sites: places that share the hosts evenly, in order (default 2)")
    c.add_argument("--between-mbit", type=float, default=20, help="sites: rate of the link of a site to the others, each way (default 20)")
    c.add_argument("--rate-mbit", type=float, default=200, help="of a host's cable, each way (default 200)")
    c.add_argument("--delay-us", type=float, default=300, help="added one way (default 300; 0: none)")
    c.add_argument("--far-delay-us", type=float, help="the same between hosts of different leaves or sites (default: as --delay-us)")
    c.add_argument("--mtu", type=int, default=4000, help="bytes of a packet (default 4000)")
    c.add_argument("--helpers", default=str(HELPERS), help="folder of testbed_delay_line and libtestbed_idle_block.so")
    c = command("run", "starts a program under mpirun, one rank a host")
    c.add_argument("--ranks", type=int, help="default: one on every host")
    c.add_argument("--realtime", action="store_true", help="ranks come before other work of the machine (chrt -r 10)")
    c.add_argument("--eager-bytes", type=int, default=65536, help="messages to this size are sent unasked (default 65536, as Open MPI's)")
    c.add_argument("--spin", action="store_true", help="waiting ranks keep asking: for machines with a core a rank")
    c.add_argument("--mca", action="append", default=[], metavar="NAME=VALUE", help="more of Open MPI's settings")
    c.add_argument("command", nargs=argparse.REMAINDER, help="program and arguments, after --")
    command("cluster", "prints the testbed's structure as a cluster file, for `twofold calibrate --cluster`")
    command("down", "ends the programs, removes hosts and network")
    command("status", "what is up")
    return parser


def main():
    if len(sys.argv) > 3 and sys.argv[1].startswith("agent="):  # for mpirun
        return agent(sys.argv[1].removeprefix("agent="), sys.argv[2], " ".join(sys.argv[3:]))
    o = vars(arguments().parse_args())
    if o.get("command") and o["command"][0] == "--":
        o["command"] = o["command"][1:]
    {"up": up, "run": run, "cluster": print_cluster, "down": down, "status": status}[o.pop("action")](o)


if __name__ == "__main__":
    try:
        main()
    except Problem as e:
        sys.exit(f"testbed: {e}")
