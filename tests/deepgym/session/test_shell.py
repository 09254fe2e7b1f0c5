"""The shell that lives on from step to step, as its agent sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.local_sandbox


# What lasts.


def test_the_current_directory_variables_functions_and_arrays_last(agent: Any) -> None:
    agent("cd /tmp; x=5; y=(a b c); f() { echo \"f$x\"; }; export Z='a  b'; declare -A m=([k]=v)")
    assert agent("pwd; f; echo ${y[1]} ${m[k]}; printenv Z").text == "/tmp\nf5\nb v\na  b\n"


def test_it_starts_in_the_work_directory_with_a_home_and_a_path(agent: Any) -> None:
    found = agent(
        "pwd; echo $HOME $TMPDIR $USER $SHELL; cd; pwd; type -P bash ls cat >/dev/null && echo there"
    )
    assert found.text == "/box/work\n/box/home /tmp agent /bin/bash\n/box/home\nthere\n"


def test_nothing_of_the_shells_own_is_in_what_is_seen(agent: Any) -> None:
    """No prompt, no history of what isn't the agent's, no complaint that there is no terminal."""
    agent("PS1='(venv) $ ' PS2='more> '; export PS1 PS2; exec 3</dev/null")
    assert agent("if true\nthen\n  echo !\nfi").text == "!\n"
    agent("sh -c 'kill -9 $$'; sh -c 'kill -INT $$'")
    assert agent("echo a").text == "a\n"
    assert "printf" not in agent("history").text


def test_options_and_limits_last(agent: Any) -> None:
    agent("set -u; shopt -s nullglob; ulimit -S -f 8; umask 077")
    assert agent("echo [*.none]; ulimit -S -f; umask").text == "[]\n8\n0077\n".replace("[]", "")
    assert "unbound variable" in agent("echo $nothing").text


def test_the_status_of_the_step_before_can_be_asked_for(agent: Any) -> None:
    agent("(exit 7)")
    assert agent("echo $?").text == "7\n"


def test_history_of_one_session_is_none_of_the_nexts(play: Callable[..., Any]) -> None:
    play()("x=5; echo left > left; echo left > /tmp/left; echo left > ~/left")
    assert play()('echo "[$x]"; ls -A . /tmp ~').text == "[]\n.:\n\n/box/home:\n\n/tmp:\n"


# Statuses and output.


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("true", 0, ""),
        ("false", 1, "[exit status 1]\n"),
        ("exit_code() { return 77; }; exit_code", 77, "[exit status 77]\n"),
        ("printf x; (exit 3)", 3, "x\n[exit status 3]\n"),
        ("no_such_program 2>&1 | grep -o 'command not found'", 0, "command not found\n"),
        ("no_such_program 2>/dev/null", 127, "[exit status 127]\n"),
        ("sh -c 'kill -9 $$' 2>/dev/null", 137, None),
        ("echo a; false; echo b", 0, "a\nb\n"),
        ("! true", 1, "[exit status 1]\n"),
        ("", 0, ""),
        ("   \n\n  # nothing", 0, ""),
    ],
)
def test_a_commands_status_and_output_are_seen(agent: Any, command: str, status: int, text: str) -> None:
    seen = agent(command)
    assert seen.exit_code == status
    assert text is None or seen.text == text
    assert (seen.done, seen.timed_out, seen.cut, seen.invalid) == (False, False, False, False)


def test_standard_error_stands_where_it_was_written(agent: Any) -> None:
    assert agent("echo 1; echo 2 >&2; echo 3; ls /none 2>&1 | wc -l >&2; echo 5").text == "1\n2\n3\n1\n5\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo (", "syntax error"),
        ("if true; then", "syntax error"),
        ("echo 'abc", "unexpected EOF"),
        ('echo "abc', "unexpected EOF"),
        ("echo $(", "unexpected EOF"),
        ("cat <<E\nunfinished", "unfinished"),
        (")", "syntax error"),
        ("}", "syntax error"),
        ("done", "syntax error"),
        ("break", "only meaningful"),
        ("continue 2", "only meaningful"),
        ("return 5", "can only `return'"),
        ("local x=1", "can only be used in a function"),
        ("<", "syntax error"),
    ],
)
def test_a_command_that_cant_be_parsed_says_so_and_costs_nothing(agent: Any, command: str, says: str) -> None:
    agent("kept=1")
    assert says in agent(command).text
    assert agent('echo "$kept"').text == "1\n"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo 'it''s' \"a \\\"b\\\"\" $'tab\\there'", 'its a "b" tab\there\n'),
        ("printf '%s\\n' \"'\" \"''\" '\"' '\\'", "'\n''\n\"\n\\\n"),
        ("cat <<'E'\n$x `y` 'z' \\n\nE", "$x `y` 'z' \\n\n"),
        ("x=1; cat <<E\n$x \\$x\nE", "1 $x\n"),
        ("cat <<E; echo after\none\nE", "one\nafter\n"),
        ("cat <<< 'here string'", "here string\n"),
        ("for i in 1 2 3; do\n  if [ $i = 2 ]; then\n    continue\n  fi\n  echo $i\ndone", "1\n3\n"),
        ("f() {\n  local a=1\n  return 3\n}\nf\necho $?", "3\n"),
        ("echo one; \\\necho two", "one\ntwo\n"),
        ("case x in\n  (x) echo yes ;;\nesac", "yes\n"),
        ("echo a #b'c\necho d", "a\nd\n"),
        ("echo 'end of eval' </dev/null; echo still", "end of eval\nstill\n"),
        ("diff <(echo a) <(echo a) && echo same", "same\n"),
        ("echo Zażółć 日本 🙂", "Zażółć 日本 🙂\n"),
        ("echo a\0b", "ab\n"),
        ("echo -e 'a\\0b' | od -An -c | tr -d ' \\n'", "a\\0b\\n"),
        ("true\r", None),
    ],
)
def test_whatever_is_in_a_command_it_is_run_as_it_is(agent: Any, command: str, text: str | None) -> None:
    seen = agent(command)
    assert text is None or seen.text == text
    assert agent("echo next").text == "next\n"


def test_a_command_that_ends_in_a_backslash_ends_there(agent: Any) -> None:
    assert agent("echo hi \\").exit_code == 0
    assert agent("echo next").text == "next\n"


def test_a_command_of_a_mebibyte_is_run(agent: Any) -> None:
    word = "x y\n\\" * ((1 << 20) // 5 - 10)
    assert agent(f"v='{word}'; echo ${{#v}}").text == f"{len(word)}\n"
    assert agent("echo ${#v}").text == f"{len(word)}\n"


def test_a_command_beyond_a_mebibyte_is_refused_and_told(agent: Any) -> None:
    seen = agent("echo " + "x" * (1 << 20))
    assert seen.invalid
    assert agent("echo next").text == "next\n"


def test_a_lone_surrogate_in_a_command_is_told_or_run_but_breaks_nothing(agent: Any) -> None:
    agent("echo '\udcff'")
    assert agent("echo next").text == "next\n"


# Standard input.


@pytest.mark.parametrize(
    "command", ["cat", "read x", "python3 -", "head -c 1", "sort", "while read -r line; do echo $line; done"]
)
def test_a_command_that_reads_its_input_finds_nothing_and_ends(
    play: Callable[..., Any], command: str
) -> None:
    agent = play(step=10.0)
    seen = agent(command)
    assert not seen.timed_out
    assert agent("echo next").text == "next\n"


def test_nothing_reads_the_next_command_as_its_input(agent: Any) -> None:
    agent("cat >/tmp/got & cat /proc/self/fd/0; wait")
    assert agent("echo secret next").text == "secret next\n"
    assert agent("cat /tmp/got").text == ""


@pytest.mark.parametrize("command", ["exec 5<&0", "exec 3<&0 4>&1; cat <&3", "exec 3</dev/null 0<&3; cat"])
def test_standard_input_can_be_duplicated_or_costs_the_shell(agent: Any, command: str) -> None:
    """Some versions of bash that read their commands from a pipe crash at the first of these."""
    seen = agent(command)
    assert seen.exit_code == 0 or "the shell ended" in seen.text
    assert not seen.timed_out
    assert agent("echo next").text == "next\n"


# A shell that comes to harm.


@pytest.mark.parametrize(
    "harm",
    [
        "exit",
        "exit 3",
        "kill -9 $$",
        "kill -TERM $$",
        "kill -HUP $$",
        "exec true",
        "exec no_such_program",
        "set -e; false",
        "exec 0<&-",
        "exec 1>&-",
        "exec 2>&-",
        "exec 1>&- 2>&-",
        "exec 0<&- 1>&- 2>&-",
        "exec >/tmp/log 2>&1",
        "exec </dev/zero",
        'for fd in /proc/$$/fd/*; do n=${fd##*/}; eval "exec $n>&-"; done; exit',
        "shopt -s extdebug; set -o posix; export -f nothing",
        "set -o posix; . /none",
        "trap 'exit 9' ERR; false",
        "trap 'kill -9 $$' DEBUG; true",
        "readonly HOME PATH PWD; HOME=x",
        "ulimit -n 8",
        "ulimit -v 1000",
        "PATH=; IFS=; unset HOME",
        "renice 19 $$; ulimit -t 5",
        "rm -rf ./* ../work ~ /tmp/* 2>/dev/null; cd /",
        "mkdir d; cd d; rmdir ../d",
        "chmod 000 /box/work /box/home .",
        "umask 777",
        "kill -9 -1",
    ],
)
def test_after_whatever_its_shell_came_to_the_session_goes_on_and_is_scored(
    play: Callable[..., Any], harm: str
) -> None:
    agent = play(step=10.0)
    seen = agent(harm)
    assert not seen.done
    assert not seen.timed_out
    assert not agent("exit").done
    assert agent("chmod 755 /box/work; cd /box/work; umask 022; echo next").text == "next\n"
    assert agent.score().passed


def test_the_end_of_a_shell_is_told_with_its_status_and_costs_its_state(agent: Any) -> None:
    agent("x=1; cd /tmp")
    seen = agent("echo last words; exit 3")
    assert seen.exit_code == 3
    assert seen.text.startswith("last words\n")
    assert seen.text.endswith("[the shell ended; the next command gets a new one; exit status 3]\n")
    assert agent('echo "[$x]"; pwd').text == "[]\n/box/work\n"


def test_a_shell_that_dies_between_two_steps_is_replaced(agent: Any) -> None:
    agent("x=1; (sleep 0.1; kill -9 $$) &")
    agent.python("import time; time.sleep(0.3)")
    assert agent('echo "[$x]"').text == "[]\n"


def test_a_shell_whose_output_went_to_a_file_ends_without_harm(agent: Any) -> None:
    agent("exec >/tmp/log")
    assert agent("echo logged; (exit 2)").text == "[exit status 2]\n"
    assert not agent("exit 4").done
    assert "logged\n" in agent("cat /tmp/log").text


def test_a_session_is_scored_while_its_shells_output_goes_to_a_file(agent: Any) -> None:
    agent("exec >log 2>&1; echo logged")
    assert agent.score().passed


@pytest.mark.parametrize(
    "block",
    [
        "sleep 100",
        "sleep 100 | cat | cat",
        "trap '' INT; sleep 100",
        "trap '' INT TERM HUP QUIT; while :; do :; done",
        "kill -STOP $$",
        "exec 50>&-",
        "printf() { :; }",
        "setsid sleep 100",
        "set -m; sleep 100",
        "(trap '' INT; sleep 100) & wait",
        "yes | cat >/dev/null",
        "read x < <(sleep 100)",
        "python3 -c 'import signal, time; signal.pthread_sigmask(0, range(1, 65)); time.sleep(100)'",
        "sleep 100 & disown -a; kill -STOP -1; sleep 100",
        "exec 50>/dev/null",
    ],
)
def test_a_step_that_doesnt_end_is_ended_and_the_next_one_works(play: Callable[..., Any], block: str) -> None:
    agent = play(step=0.8)
    seen = agent(block)
    if not block.startswith("printf"):
        assert seen.timed_out
        assert seen.exit_code is None
        assert "stopped after 0.8 s" in seen.text
    agent("true")
    assert agent("echo next").text == "next\n"
    assert agent.score().passed


def test_a_time_out_interrupts_first_so_that_the_shell_lives_on(play: Callable[..., Any]) -> None:
    agent = play(step=0.8)
    agent("x=1; cd /tmp; sleep 0.01 & sleep 200 & echo $! > background")
    seen = agent("echo before; sleep 100")
    assert seen.text.replace("\n\n", "\n") == "before\n[it was stopped after 0.8 s]\n"
    assert agent('echo "$x"; pwd; kill -0 "$(cat background)" && echo alive').text == "1\n/tmp\nalive\n"


def test_a_time_out_ends_the_whole_line_not_only_what_it_was_at(play: Callable[..., Any]) -> None:
    agent = play(step=0.8)
    assert "later" not in agent("sleep 100; echo later; touch later").text
    assert "later" not in agent("sleep 100 || echo later || touch later\necho later\ntouch later").text
    assert agent("ls").text == ""


def test_a_program_may_handle_the_interrupt(play: Callable[..., Any]) -> None:
    agent = play(step=0.9)
    seen = agent(
        "python3 -c 'import time\ntry: time.sleep(100)\nexcept KeyboardInterrupt: print(\"tidied\")'"
    )
    assert seen.timed_out
    assert "tidied\n" in seen.text


def test_what_was_written_before_a_time_out_is_seen(play: Callable[..., Any]) -> None:
    agent = play(step=0.8)
    seen = agent("trap '' INT; echo one; echo two >&2; sleep 100")
    assert seen.text.startswith("one\ntwo\n")


# Background jobs.


def test_background_jobs_go_on_and_what_they_write_later_comes_with_the_next_step(agent: Any) -> None:
    seen = agent("(while [ ! -e go ]; do sleep 0.01; done; echo late; touch went) & echo now")
    assert seen.text.endswith("now\n")
    agent.python("import os, time; open('go', 'w')\nwhile not os.path.exists('went'): time.sleep(0.01)")
    assert agent("echo next").text == "late\nnext\n"


def test_a_background_job_doesnt_hold_its_step(play: Callable[..., Any]) -> None:
    agent = play(step=10.0)
    for start in (
        "sleep 100 &",
        "nohup sleep 100 &",
        "setsid sleep 100 &",
        "(sleep 100 &)",
        "sleep 100 & disown",
    ):
        assert not agent(start).timed_out
    assert not agent.python("import subprocess; subprocess.Popen(['sleep', '100'])").timed_out
    assert agent("until [ $(ps -e -o comm= | grep -cx sleep) = 6 ]; do :; done; echo all").text == "all\n"


def test_jobs_can_be_waited_for_and_stopped_by_number(agent: Any) -> None:
    agent("sleep 100 & sleep 0.01 & first=$!")
    assert agent("wait $first; echo $?").text == "0\n"
    assert agent("kill %1; wait %1; echo $?").text.endswith("143\n")


def test_a_job_that_outlived_its_shell_can_still_write_to_files(agent: Any) -> None:
    agent("(while [ ! -e go ]; do sleep 0.01; done; echo alive > said) & exit")
    agent("touch go; while [ ! -s said ]; do sleep 0.01; done")
    assert agent("cat said").text == "alive\n"


# Output without end.


def test_long_output_keeps_its_beginning_and_its_end_and_says_what_is_missing(
    play: Callable[..., Any],
) -> None:
    agent = play(output=1000)
    seen = agent("seq 1 100000")
    assert seen.cut
    assert seen.text.startswith("1\n2\n3\n")
    assert seen.text.endswith("\n100000\n")
    assert f"[{588_895 - 1000} bytes left out]" in seen.text
    assert len(seen.text) < 1100


@pytest.mark.parametrize("size", [255, 256, 257, 511, 512, 513])
def test_output_of_just_the_limit_is_whole(play: Callable[..., Any], size: int) -> None:
    agent = play(output=512)
    seen = agent(f"head -c {size} /dev/zero | tr '\\0' x")
    assert seen.cut == (size > 512)
    assert seen.text.count("x") == min(size, 512)


def test_a_flood_is_ended_at_its_bound(play: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    agent = play(step=60.0)
    seen = agent("echo first; yes")
    assert seen.cut
    assert not seen.timed_out
    assert seen.text.startswith("first\ny\ny\n")
    assert "wrote more than" in seen.text
    assert len(seen.text) < 20_000
    assert agent("echo next").text == "next\n"


def test_a_flood_of_a_program_is_ended_at_its_bound(play: Callable[..., Any]) -> None:
    agent = play(step=60.0)
    seen = agent.python("import os\nwhile True: os.write(1, b'x' * 65536)")
    assert seen.cut
    assert not seen.timed_out
    assert "wrote more than" in seen.text


def test_a_flood_from_the_background_harms_no_other_step(agent: Any) -> None:
    agent("yes & yes > /dev/null & echo $! > other")
    for _ in range(3):
        assert agent.python("print('ok')").text == "ok\n"
    agent("kill $(cat other); kill %1; wait")
    assert agent("echo next").text.endswith("next\n")


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (r"\xff\xfe", "\ufffd\ufffd"),
        (r"\xed\xb2\x80", "\ufffd\ufffd\ufffd"),
        (r"\xe2\x82", "\ufffd"),
        (r"a\0b", "a\0b"),
        (r"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    ],
)
def test_output_that_isnt_text_is_replaced_so_that_it_is(agent: Any, output: str, text: str) -> None:
    seen = agent(f"printf '{output}'")
    assert seen.text == text
    assert type(seen).model_validate_json(seen.model_dump_json()) == seen


def test_a_character_that_was_cut_in_two_is_replaced(play: Callable[..., Any]) -> None:
    agent = play(output=257)
    seen = agent("printf '€%.0s' {1..1000}")
    assert seen.cut
    seen.text.encode()


# Other tools.


def test_python_starts_afresh_each_time_in_the_work_directory(agent: Any) -> None:
    assert agent.python("import os; x = 1; print(os.getcwd())").text == "/box/work\n"
    seen = agent.python("print(x)")
    assert seen.exit_code == 1
    assert "NameError" in seen.text
    assert agent.python("import sys; sys.exit(5)").exit_code == 5


def test_python_can_import_what_the_agent_wrote(agent: Any) -> None:
    agent.write("pkg/mod.py", "def f(): return 'mine'\n")
    assert agent.python("from pkg.mod import f; print(f())").text == "mine\n"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(:", "SyntaxError"),
        ("x = '\0'", "Error"),
        ("print('ż日🙂')", "ż日🙂"),
        ("import os; os._exit(0)", ""),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("print(input())", "EOFError"),
        ("raise SystemExit('bye')", "bye"),
    ],
)
def test_python_code_of_any_kind_ends(agent: Any, code: str, says: str) -> None:
    seen = agent.python(code)
    assert says in seen.text
    assert not seen.done


def test_python_that_doesnt_end_is_killed_and_its_output_seen(play: Callable[..., Any]) -> None:
    agent = play(step=0.9)
    seen = agent.python(
        "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nprint('begun', flush=True)\ntime.sleep(99)"
    )
    assert (seen.timed_out, seen.exit_code) == (True, None)
    assert seen.text == "begun\n[it was stopped after 0.9 s]\n"


def test_a_python_step_doesnt_wait_for_what_it_leaves_behind(play: Callable[..., Any]) -> None:
    agent = play(step=10.0)
    seen = agent.python("import os, time\nprint('parent', flush=True)\nif os.fork() == 0: time.sleep(100)")
    assert (seen.timed_out, seen.text) == (False, "parent\n")


def test_locks_and_pools_of_processes_work(agent: Any) -> None:
    code = "from concurrent.futures import ProcessPoolExecutor as Pool\nimport multiprocessing\n"
    code += "multiprocessing.Lock()\nwith Pool(2) as pool: print(list(pool.map(abs, [-1, -2])))"
    assert agent.python(code).text == "[1, 2]\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo hi > /dev/stdout",
        "echo hi > /dev/stderr",
        "echo hi | tee /dev/stderr >/dev/null",
        "echo hi > /dev/fd/1",
        "echo hi > /proc/self/fd/2",
        "echo hi | cat /dev/stdin",
    ],
)
def test_standard_streams_can_be_opened_by_name(agent: Any, command: str) -> None:
    assert agent(command).text == "hi\n"
