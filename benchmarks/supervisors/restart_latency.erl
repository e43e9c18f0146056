#!/usr/bin/env escript
%% Usage: restart_latency.erl STRATEGY CHILDREN REPEATS
%% Prints the median microseconds from the exit of the first child to the start of the last of its group.
-mode(compile).

main([Strategy, Count, Repeats]) ->
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    N = list_to_integer(Count),
    Self = self(),
    Spec = fun(I) ->
        #{id => I, restart => permanent, shutdown => 5000,
          start => {erlang, apply, [fun() -> child(Self, I) end, []]}}
    end,
    Flags = #{strategy => list_to_atom(Strategy), intensity => 1000000, period => 1},
    Init = fun(_) -> {ok, {Flags, [Spec(I) || I <- lists:seq(1, N)]}} end,
    {ok, Sup} = start(Init),
    First = collect(N, undefined),
    Last = case Strategy of "one_for_one" -> 1; _ -> N end,
    Times = lists:sort(repeat(list_to_integer(Repeats), First, Last)),
    io:format("~p~n", [lists:nth(length(Times) div 2 + 1, Times)]),
    unlink(Sup),
    erlang:halt(0).

start(Init) ->
    {module, otp_bench} = load(),
    persistent_term:put(otp_bench_init, Init),
    supervisor:start_link(otp_bench, []).

%% A module whose init/1 calls the fun: supervisor wants a module.
load() ->
    Forms = [
        {attribute, 1, module, otp_bench},
        {attribute, 2, export, [{init, 1}]},
        {function, 3, init, 1, [{clause, 3, [{var, 3, 'A'}], [],
            [{call, 3, {call, 3, {remote, 3, {atom, 3, persistent_term}, {atom, 3, get}},
                [{atom, 3, otp_bench_init}]}, [{var, 3, 'A'}]}]}]}
    ],
    {ok, otp_bench, Binary} = compile:forms(Forms),
    code:load_binary(otp_bench, "otp_bench", Binary).

child(Parent, I) ->
    Pid = spawn_link(fun() -> receive stop -> exit(crash) end end),
    Parent ! {up, I, Pid},
    {ok, Pid}.

collect(0, First) -> First;
collect(N, First) ->
    receive
        {up, 1, Pid} -> collect(N - 1, Pid);
        {up, _, _} -> collect(N - 1, First)
    end.

repeat(0, _, _) -> [];
repeat(K, First, Last) ->
    Begun = erlang:monotonic_time(microsecond),
    First ! stop,
    Next = await(Last, undefined),
    [erlang:monotonic_time(microsecond) - Begun | repeat(K - 1, Next, Last)].

await(Last, First) ->
    receive
        {up, I, Pid} when I =:= Last -> if I =:= 1 -> Pid; true -> First end;
        {up, 1, Pid} -> await(Last, Pid);
        {up, _, _} -> await(Last, First)
    end.
