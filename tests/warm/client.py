# Appended to lines that say which PYTHON it stands for, the PLACE of the sockets, and what the
# environment says there that matters before a program begins (BEGUN_WITH).
# It has the standard library only, and no `site`: it takes 20 ms.
import marshal
import os
import re
import signal
import socket
import sys

TENSORFLOW = "tensorflow", "tf_keras", "keras"
OTHERS = (
    "torch", "lightning", "pytorch_lightning", "transformers", "accelerate", "datasets", "xgboost",
    "lightgbm", "sklearn", "mlflow", "pandas", "polars", "pyarrow",
)  # fmt: skip
ALSO = "WARM_PACKAGES"  # a variable that names packages which the text does not
RESERVED = 512  # descriptors below are free in what is forked
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def before_begin(environment):
    """Return the variables that interpreters and libraries look at when they begin."""
    begin = re.compile(r"PYTHON(?!PATH$)|LD_|MALLOC_|TF_USE_LEGACY_KERAS$")
    return {name: value for name, value in environment.items() if begin.match(name)}


def inherited_descriptors():
    """Return those that the program would have: all but the one of this listing."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            pass
    return sorted(found)


def text_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def packages(arguments, environment):
    """Return which of the slow packages the program mentions."""
    texts = [*arguments, *(text_of(path) for path in arguments if path.endswith(".py"))]
    texts += environment.pop(ALSO, "").split()
    names = "|".join(TENSORFLOW + OTHERS)
    mentioned = re.compile(rf"""(?:\bimport |\bfrom |['"]|^|skate\.train\.)({names})\b""", re.M)
    return {name for text in texts for name in mentioned.findall(text)}


def kind_of(names, environment):
    """Return which process to fork from, or None for an interpreter as it is."""
    if before_begin(environment) != BEGUN_WITH:  # noqa: F821
        return None
    return "tensorflow" if names & {*TENSORFLOW} else "torch" if names else None


def is_plain(command):
    """Return whether it is a program without options, which does not ask what is imported."""
    if command[0] == "-m":
        return True
    text = command[1] if command[0] == "-c" else text_of(command[0])
    return (command[0] == "-c" or command[0][:1] != "-") and "sys.modules" not in text


def receive_number(nursery):
    data = nursery.recv(4, socket.MSG_WAITALL)
    if len(data) < 4:
        os._exit(70)  # the nursery is gone, and has said why
    return int.from_bytes(data, "big")


def main(arguments):
    environment, descriptors = dict(os.environ), inherited_descriptors()
    unbuffered = arguments[:1] == ["-u"]
    command = arguments[unbuffered:]
    names = packages(command, environment)
    kind = kind_of(names, environment)
    if kind is None or not is_plain(command) or max(descriptors) >= RESERVED:
        os.execv(PYTHON, [PYTHON, *arguments])  # noqa: F821
    nursery = socket.socket(socket.AF_UNIX)
    nursery.connect(os.path.join(PLACE, kind))  # noqa: F821
    request = (sorted(names), command, unbuffered, environment, os.getcwd(), descriptors)
    data = marshal.dumps(request)
    socket.send_fds(nursery, [len(data).to_bytes(8, "big")], descriptors)
    nursery.sendall(data)
    pid = receive_number(nursery)
    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(pid, number))
    for descriptor in descriptors:  # whoever reads from the program sees when it closes them
        os.close(descriptor)
    code = os.waitstatus_to_exitcode(receive_number(nursery))
    if code < 0:
        if -code in FORWARDED:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
