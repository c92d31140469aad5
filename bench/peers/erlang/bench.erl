%% Erlang/OTP. Usage: erlang WORKLOAD WORKERS
-module(bench).
-export([main/1, init/1, start_fragile/2, handle_call/3, handle_cast/2]).

report(Row, Value, Unit) ->
    io:format("erlang ~s ~.3f ~s~n", [Row, float(Value), Unit]).

now_ns() -> erlang:monotonic_time(nanosecond).

main([Workload, Workers]) ->
    Me = self(),
    spawn_link(fun() -> run(Workload, Workers), Me ! over end),
    receive over -> halt(0) end.

run("pingpong", Workers) -> pingpong(Workers);
run("ring", _) -> ring();
run("fanin", _) -> fanin();
run("spawn", _) -> spawn_all();
run("restart", _) -> restart();
run("call", _) -> call();
run("memory", _) -> memory();
run("wake", _) -> wake().

%% Two processes send a number to and fro.
pingpong(Workers) ->
    Balls = 1000000,
    Me = self(),
    Other = spawn(fun() -> return_balls(Me) end),
    Begun = now_ns(),
    serve_balls(Other, 0, Balls),
    report("actor_pingpong" ++ Workers, 2 * Balls * 1000 / (now_ns() - Begun), "Mmsg/s").

return_balls(To) ->
    receive Ball -> To ! Ball end,
    return_balls(To).

serve_balls(_, Balls, Balls) -> ok;
serve_balls(To, Ball, Balls) ->
    To ! Ball + 1,
    receive Back -> serve_balls(To, Back, Balls) end.

%% One token goes round 100,000 processes.
ring() ->
    Members = 100000,
    Laps = 20,
    Me = self(),
    First = lists:foldl(fun(_, Next) -> spawn(fun() -> pass_on(Next) end) end, Me, lists:seq(2, Members)),
    Begun = now_ns(),
    First ! Members * Laps - 1,
    go_round(First),
    report("actor_ring", Members * Laps * 1000 / (now_ns() - Begun), "Mmsg/s").

pass_on(Next) ->
    receive Left -> Next ! Left - 1 end,
    pass_on(Next).

go_round(First) ->
    receive
        0 -> ok;
        Left -> First ! Left - 1, go_round(First)
    end.

%% 1,000 processes send 1,000 numbers each to one. Its mailbox has no limit.
fanin() ->
    Senders = 1000,
    Letters = 1000,
    Me = self(),
    Begun = now_ns(),
    [spawn(fun() -> send_letters(Me, Letters) end) || _ <- lists:seq(1, Senders)],
    Sum = count_letters(Senders * Letters, 0),
    Took = now_ns() - Begun,
    Sum = Senders * Letters * (Letters + 1) div 2,
    report("actor_fanin", Senders * Letters * 1000 / Took, "Mmsg/s").

send_letters(_, 0) -> ok;
send_letters(To, Left) ->
    To ! Left,
    send_letters(To, Left - 1).

count_letters(0, Sum) -> Sum;
count_letters(Left, Sum) ->
    receive N -> count_letters(Left - 1, Sum + N) end.

%% Start, one message, end.
spawn_all() ->
    Lives = 1000000,
    Alive = atomics:new(1, []),
    atomics:put(Alive, 1, Lives),
    Me = self(),
    Begun = now_ns(),
    bear(Lives, Alive, Me),
    receive all_over -> ok end,
    report("actor_spawn", Lives * 1000 / (now_ns() - Begun), "Mactor/s").

bear(0, _, _) -> ok;
bear(Left, Alive, Me) ->
    spawn(fun() -> live_once(Alive, Me) end) ! hello,
    bear(Left - 1, Alive, Me).

live_once(Alive, Me) ->
    receive hello -> ok end,
    case atomics:sub_get(Alive, 1, 1) of
        0 -> Me ! all_over;
        _ -> ok
    end.

%% Children that fail repeatedly, with logging disabled. On each restart a supervisor walks through its restarts of the last second,
%% which would dominate the result if there were only one supervisor.
restart() ->
    Restarts = 100000,
    logger:set_primary_config(level, none),
    Starts = atomics:new(1, []),
    Begun = now_ns(),
    [{ok, _} = supervisor:start_link(?MODULE, {Starts, Restarts, self()}) || _ <- lists:seq(1, 100)],
    [receive all_over -> ok end || _ <- lists:seq(1, 100)],
    report("actor_restart", Restarts * 1.0e9 / (now_ns() - Begun), "restart/s").

init(server) -> {ok, none};
init({Starts, Restarts, Me}) ->
    Fail = fun() ->
        case atomics:add_get(Starts, 1, 1) > Restarts of
            true -> Me ! all_over;
            false -> exit(crash)
        end
    end,
    {ok, {#{strategy => one_for_one, intensity => 1000000000, period => 1},
          [#{id => child, start => {?MODULE, start_fragile, [Fail, []]}, restart => transient}]}}.

start_fragile(Fail, []) -> {ok, spawn_link(Fail)}.

%% One asks, another answers.
call() ->
    Calls = 1000000,
    {ok, Server} = gen_server:start_link(?MODULE, server, []),
    Begun = now_ns(),
    call(Server, Calls),
    report("actor_call", (now_ns() - Begun) / Calls, "ns/call").

call(_, 0) -> ok;
call(Server, Left) ->
    ok = gen_server:call(Server, ask, infinity),
    call(Server, Left - 1).

handle_call(ask, _, State) -> {reply, ok, State}.

handle_cast(_, State) -> {noreply, State}.

%% Idle processes.
resident_bytes() ->
    {ok, Text} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = string:lexemes(Text, " "),
    binary_to_integer(Pages) * 4096.

memory() ->
    Lives = 1000000,
    Before = resident_bytes(),
    keep(Lives, fun() -> receive never -> ok end end),
    timer:sleep(300),
    report("actor_memory", (resident_bytes() - Before) / Lives, "B/actor").

keep(0, _) -> ok;
keep(Left, Idle) ->
    spawn(Idle),
    keep(Left - 1, Idle).

%% A message to a process that has idled.
wake() ->
    Wakes = 2000,
    Me = self(),
    Other = spawn(fun() -> note_time(Me) end),
    Took = lists:sort([wake_once(Other) || _ <- lists:seq(1, Wakes)]),
    report("actor_wake", lists:nth(Wakes div 2, Took) / 1000, "us"),
    report("actor_wake_p99", lists:nth(Wakes * 99 div 100, Took) / 1000, "us").

note_time(To) ->
    receive Sent -> To ! now_ns() - Sent end,
    note_time(To).

wake_once(Other) ->
    timer:sleep(1),
    Other ! now_ns(),
    receive Took -> Took end.
