"""The 22 queries of TPC-H in the API of datasets, which is also Ray's.

Each takes a function that gives a table by its name. Amounts of money are decimals in the files;
they are cast to floats where they are calculated with, as Ray's own benchmark does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from skate.data import Dataset
from skate.data.aggregate import Count, Max, Mean, Min, Sum
from skate.data.expressions import Expr, col, lit

Tables = Callable[[str], Dataset]
Query = Callable[[Tables], Dataset]


def day(text: str) -> Expr:
    return lit(dt.date.fromisoformat(text))


def money(name: str) -> Expr:
    return col(name).cast("float64")


def discounted() -> Expr:
    return money("l_extendedprice") * (1 - money("l_discount"))


def between(column: Expr, low: Expr, high: Expr) -> Expr:
    """From `low` to before `high`."""
    return (column >= low) & (column < high)


def joined(left: Dataset, right: Dataset, on: Any, right_on: Any, kind: str = "inner") -> Dataset:
    return left.join(right, kind, 1, on, right_on)


def totals(rows: Dataset, keys: Any, **sums: str) -> Dataset:
    """Sums by key, under names of their own."""
    return rows.groupby(keys).aggregate(*(Sum(on, alias_name=name) for name, on in sums.items()))


def one(rows: Dataset, function: Any, name: str) -> Dataset:
    """A row with one number about all rows."""
    import pyarrow as pa

    from skate import data

    value = next(iter(rows.aggregate(function).values()))
    return data.from_arrow(pa.table({name: [value]}))


def nations_of(table: Tables, region: str) -> Dataset:
    regions = table("region").filter(expr=col("r_name") == region)
    nations = joined(table("nation"), regions, "n_regionkey", "r_regionkey", "left_semi")
    return nations.select_columns(["n_nationkey", "n_name"])


def q1(table: Tables) -> Dataset:
    return (
        table("lineitem")
        .filter(expr=col("l_shipdate") <= day("1998-09-02"))
        .with_columns({name: money(name) for name in ("l_quantity", "l_tax", "l_discount")})
        .with_columns({"l_extendedprice": money("l_extendedprice")})
        .with_columns({"price": col("l_extendedprice") * (1 - col("l_discount"))})
        .with_columns({"charge": col("price") * (1 + col("l_tax"))})
        .groupby(["l_returnflag", "l_linestatus"])
        .aggregate(
            *map(Sum, ("l_quantity", "l_extendedprice", "price", "charge")),
            *map(Mean, ("l_quantity", "l_extendedprice", "l_discount")),
            Count(),
        )
        .sort(["l_returnflag", "l_linestatus"])
    )


def q2(table: Tables) -> Dataset:
    parts = table("part").filter(expr=(col("p_size") == 15) & col("p_type").str.ends_with("BRASS"))
    suppliers = joined(
        table("supplier"), nations_of(table, "EUROPE"), "s_nationkey", "n_nationkey"
    )
    offers = joined(
        table("partsupp"), parts.select_columns(["p_partkey", "p_mfgr"]), "ps_partkey", "p_partkey"
    )
    offers = joined(offers, suppliers, "ps_suppkey", "s_suppkey")
    lowest = offers.groupby("ps_partkey").aggregate(Min("ps_supplycost", alias_name="lowest"))
    return (
        joined(offers, lowest, ["ps_partkey", "ps_supplycost"], ["ps_partkey", "lowest"])
        .select_columns(
            "s_acctbal s_name n_name ps_partkey p_mfgr s_address s_phone s_comment".split()
        )
        .sort(["s_acctbal", "n_name", "s_name", "ps_partkey"], [True, False, False, False])
        .limit(100)
    )


def q3(table: Tables) -> Dataset:
    customers = table("customer").filter(expr=col("c_mktsegment") == "BUILDING")
    orders = table("orders").filter(expr=col("o_orderdate") < day("1995-03-15"))
    items = table("lineitem").filter(expr=col("l_shipdate") > day("1995-03-15"))
    orders = joined(orders, customers, "o_custkey", "c_custkey", "left_semi")
    rows = joined(items, orders, "l_orderkey", "o_orderkey").with_column("price", discounted())
    return (
        totals(rows, ["l_orderkey", "o_orderdate", "o_shippriority"], revenue="price")
        .select_columns(["l_orderkey", "revenue", "o_orderdate", "o_shippriority"])
        .sort(["revenue", "o_orderdate"], [True, False])
        .limit(10)
    )


def q4(table: Tables) -> Dataset:
    late = table("lineitem").filter(expr=col("l_commitdate") < col("l_receiptdate"))
    in_time = between(col("o_orderdate"), day("1993-07-01"), day("1993-10-01"))
    orders = table("orders").filter(expr=in_time)
    return (
        joined(orders, late, "o_orderkey", "l_orderkey", "left_semi")
        .groupby("o_orderpriority")
        .aggregate(Count())
        .sort("o_orderpriority")
    )


def q5(table: Tables) -> Dataset:
    in_time = between(col("o_orderdate"), day("1994-01-01"), day("1995-01-01"))
    nations = nations_of(table, "ASIA")
    customers = joined(table("customer"), nations, "c_nationkey", "n_nationkey")
    orders = joined(table("orders").filter(expr=in_time), customers, "o_custkey", "c_custkey")
    rows = joined(table("lineitem"), orders, "l_orderkey", "o_orderkey")
    rows = joined(
        rows, table("supplier"), ["l_suppkey", "c_nationkey"], ["s_suppkey", "s_nationkey"]
    )
    rows = rows.with_column("price", discounted())
    return totals(rows, "n_name", revenue="price").sort("revenue", descending=True)


def q6(table: Tables) -> Dataset:
    rows = (
        table("lineitem")
        .filter(expr=between(col("l_shipdate"), day("1994-01-01"), day("1995-01-01")))
        .filter(expr=(money("l_discount") >= 0.05) & (money("l_discount") <= 0.07))
        .filter(expr=money("l_quantity") < 24)
        .with_column("price", money("l_extendedprice") * money("l_discount"))
    )
    return one(rows, Sum("price"), "revenue")


def q7(table: Tables) -> Dataset:
    pair = ["FRANCE", "GERMANY"]
    nations = table("nation").filter(expr=col("n_name").is_in(pair))
    nations = nations.select_columns(["n_nationkey", "n_name"])
    suppliers = joined(
        table("supplier"), nations.rename_columns({"n_name": "supp_nation"}),
        "s_nationkey", "n_nationkey",
    )  # fmt: skip
    customers = joined(
        table("customer"), nations.rename_columns({"n_name": "cust_nation"}),
        "c_nationkey", "n_nationkey",
    )  # fmt: skip
    in_time = between(col("l_shipdate"), day("1995-01-01"), day("1997-01-01"))
    rows = joined(table("lineitem").filter(expr=in_time), suppliers, "l_suppkey", "s_suppkey")
    orders = joined(table("orders"), customers, "o_custkey", "c_custkey")
    rows = joined(rows, orders, "l_orderkey", "o_orderkey")
    rows = rows.filter(expr=col("supp_nation") != col("cust_nation"))
    rows = rows.with_columns({"l_year": col("l_shipdate").dt.year(), "volume": discounted()})
    keys = ["supp_nation", "cust_nation", "l_year"]
    return totals(rows, keys, revenue="volume").sort(keys)


def q8(table: Tables) -> Dataset:
    parts = table("part").filter(expr=col("p_type") == "ECONOMY ANODIZED STEEL")
    in_time = between(col("o_orderdate"), day("1995-01-01"), day("1997-01-01"))
    customers = joined(
        table("customer"), nations_of(table, "AMERICA"), "c_nationkey", "n_nationkey", "left_semi"
    )
    orders = joined(
        table("orders").filter(expr=in_time), customers, "o_custkey", "c_custkey", "left_semi"
    )
    rows = joined(table("lineitem"), parts, "l_partkey", "p_partkey", "left_semi")
    rows = joined(rows, orders, "l_orderkey", "o_orderkey")
    rows = joined(rows, table("supplier"), "l_suppkey", "s_suppkey")
    rows = joined(rows, table("nation"), "s_nationkey", "n_nationkey")
    brazil = (col("n_name") == "BRAZIL").cast("int32").cast("float64")
    rows = rows.with_columns({"o_year": col("o_orderdate").dt.year(), "volume": discounted()})
    rows = rows.with_column("brazil", col("volume") * brazil)
    rows = totals(rows, "o_year", brazil="brazil", volume="volume")
    rows = rows.with_column("mkt_share", col("brazil") / col("volume"))
    return rows.select_columns(["o_year", "mkt_share"]).sort("o_year")


def q9(table: Tables) -> Dataset:
    parts = table("part").filter(expr=col("p_name").str.contains("green"))
    rows = joined(table("lineitem"), parts.select_columns(["p_partkey"]), "l_partkey", "p_partkey")
    rows = joined(
        rows, table("partsupp"), ["l_partkey", "l_suppkey"], ["ps_partkey", "ps_suppkey"]
    )
    rows = joined(rows, table("supplier"), "l_suppkey", "s_suppkey")
    rows = joined(rows, table("nation"), "s_nationkey", "n_nationkey")
    rows = joined(rows, table("orders"), "l_orderkey", "o_orderkey")
    cost = money("ps_supplycost") * money("l_quantity")
    rows = rows.with_columns(
        {"o_year": col("o_orderdate").dt.year(), "amount": discounted() - cost}
    )
    return totals(rows, ["n_name", "o_year"], sum_profit="amount").sort(
        ["n_name", "o_year"], [False, True]
    )


def q10(table: Tables) -> Dataset:
    in_time = between(col("o_orderdate"), day("1993-10-01"), day("1994-01-01"))
    items = table("lineitem").filter(expr=col("l_returnflag") == "R")
    rows = joined(items, table("orders").filter(expr=in_time), "l_orderkey", "o_orderkey")
    rows = rows.with_column("price", discounted())
    revenue = totals(rows, "o_custkey", revenue="price")
    rows = joined(table("customer"), revenue, "c_custkey", "o_custkey")
    rows = joined(rows, table("nation"), "c_nationkey", "n_nationkey")
    return (
        rows.select_columns(
            "c_custkey c_name revenue c_acctbal n_name c_address c_phone c_comment".split()
        )
        .sort("revenue", descending=True)
        .limit(20)
    )


def q11(table: Tables) -> Dataset:
    nations = table("nation").filter(expr=col("n_name") == "GERMANY")
    suppliers = joined(table("supplier"), nations, "s_nationkey", "n_nationkey", "left_semi")
    rows = joined(table("partsupp"), suppliers, "ps_suppkey", "s_suppkey", "left_semi")
    worth = money("ps_supplycost") * col("ps_availqty").cast("float64")
    values = totals(rows.with_column("worth", worth), "ps_partkey", value="worth")
    total = values.sum("value")
    scale = table("supplier").count() / 10_000
    return values.filter(expr=col("value") > total * 0.0001 / scale).sort("value", descending=True)


def q12(table: Tables) -> Dataset:
    items = (
        table("lineitem")
        .filter(expr=col("l_shipmode").is_in(["MAIL", "SHIP"]))
        .filter(expr=between(col("l_receiptdate"), day("1994-01-01"), day("1995-01-01")))
        .filter(expr=col("l_commitdate") < col("l_receiptdate"))
        .filter(expr=col("l_shipdate") < col("l_commitdate"))
    )
    rows = joined(items, table("orders"), "l_orderkey", "o_orderkey")
    urgent = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    rows = rows.with_columns({"high": urgent, "low": ~urgent})
    found = totals(rows, "l_shipmode", high_line_count="high", low_line_count="low")
    return found.sort("l_shipmode")


def q13(table: Tables) -> Dataset:
    orders = table("orders").filter(expr=~col("o_comment").str.match("%special%requests%"))
    rows = joined(
        table("customer"), orders.select_columns(["o_orderkey", "o_custkey"]),
        "c_custkey", "o_custkey", "left_outer",
    )  # fmt: skip
    counts = rows.groupby("c_custkey").aggregate(
        Count("o_orderkey", ignore_nulls=True, alias_name="c_count")
    )
    counts = counts.groupby("c_count").aggregate(Count(alias_name="custdist"))
    return counts.sort(["custdist", "c_count"], descending=[True, True])


def q14(table: Tables) -> Dataset:
    in_time = between(col("l_shipdate"), day("1995-09-01"), day("1995-10-01"))
    rows = joined(table("lineitem").filter(expr=in_time), table("part"), "l_partkey", "p_partkey")
    rows = rows.with_columns(
        {"price": discounted(), "promo": col("p_type").str.starts_with("PROMO")}
    )
    rows = totals(rows, "promo", revenue="price")
    revenue = {row["promo"]: row["revenue"] for row in rows.take_all()}
    share = 100 * revenue[True] / (revenue[True] + revenue[False])
    import pyarrow as pa

    from skate import data

    return data.from_arrow(pa.table({"promo_revenue": [share]}))


def q15(table: Tables) -> Dataset:
    in_time = between(col("l_shipdate"), day("1996-01-01"), day("1996-04-01"))
    items = table("lineitem").filter(expr=in_time).with_column("price", discounted())
    revenue = totals(items, "l_suppkey", total_revenue="price").materialize()
    largest = revenue.max("total_revenue")
    best = revenue.filter(expr=col("total_revenue") >= largest)
    rows = joined(table("supplier"), best, "s_suppkey", "l_suppkey")
    return rows.select_columns(
        ["s_suppkey", "s_name", "s_address", "s_phone", "total_revenue"]
    ).sort("s_suppkey")


def q16(table: Tables) -> Dataset:
    complaints = table("supplier").filter(expr=col("s_comment").str.match("%Customer%Complaints%"))
    parts = table("part").filter(
        expr=(col("p_brand") != "Brand#45")
        & ~col("p_type").str.starts_with("MEDIUM POLISHED")
        & col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9])
    )
    offers = joined(table("partsupp"), complaints, "ps_suppkey", "s_suppkey", "left_anti")
    rows = joined(offers, parts, "ps_partkey", "p_partkey")
    keys = ["p_brand", "p_type", "p_size"]
    distinct = rows.groupby([*keys, "ps_suppkey"]).aggregate(Count())
    counts = distinct.groupby(keys).aggregate(Count(alias_name="supplier_cnt"))
    return counts.select_columns([*keys, "supplier_cnt"]).sort(
        ["supplier_cnt", *keys], [True, False, False, False]
    )


def q17(table: Tables) -> Dataset:
    parts = table("part").filter(
        expr=(col("p_brand") == "Brand#23") & (col("p_container") == "MED BOX")
    )
    items = table("lineitem").with_column("quantity", money("l_quantity"))
    rows = joined(items, parts, "l_partkey", "p_partkey", "left_semi")
    means = rows.groupby("l_partkey").aggregate(Mean("quantity", alias_name="mean"))
    rows = joined(rows, means, "l_partkey", "l_partkey")
    rows = rows.filter(expr=col("quantity") < col("mean") * 0.2)
    rows = rows.with_column("yearly", money("l_extendedprice") / 7.0)
    return one(rows, Sum("yearly"), "avg_yearly")


def q18(table: Tables) -> Dataset:
    items = table("lineitem").with_column("quantity", money("l_quantity"))
    sums = totals(items, "l_orderkey", sum_quantity="quantity")
    large = sums.filter(expr=col("sum_quantity") > 300)
    rows = joined(table("orders"), large, "o_orderkey", "l_orderkey")
    rows = joined(rows, table("customer"), "o_custkey", "c_custkey")
    return (
        rows.select_columns(
            "c_name o_custkey o_orderkey o_orderdate o_totalprice sum_quantity".split()
        )
        .sort(["o_totalprice", "o_orderdate"], [True, False])
        .limit(100)
    )


def q19(table: Tables) -> Dataset:
    items = table("lineitem").filter(
        expr=col("l_shipmode").is_in(["AIR", "AIR REG"])
        & (col("l_shipinstruct") == "DELIVER IN PERSON")
    )
    rows = joined(items, table("part"), "l_partkey", "p_partkey")
    any_of: Any = None
    for brand, kind, least, sizes in (
        ("Brand#12", "SM", 1, 5), ("Brand#23", "MED", 10, 10), ("Brand#34", "LG", 20, 15),
    ):  # fmt: skip
        containers = {
            "SM": ["SM CASE", "SM BOX", "SM PACK", "SM PKG"],
            "MED": ["MED BAG", "MED BOX", "MED PKG", "MED PACK"],
            "LG": ["LG CASE", "LG BOX", "LG PACK", "LG PKG"],
        }[kind]
        this = (
            (col("p_brand") == brand)
            & col("p_container").is_in(containers)
            & (money("l_quantity") >= least)
            & (money("l_quantity") <= least + 10)
            & (col("p_size") >= 1)
            & (col("p_size") <= sizes)
        )
        any_of = this if any_of is None else any_of | this
    return one(
        rows.filter(expr=any_of).with_column("price", discounted()), Sum("price"), "revenue"
    )


def q20(table: Tables) -> Dataset:
    parts = table("part").filter(expr=col("p_name").str.starts_with("forest"))
    in_time = between(col("l_shipdate"), day("1994-01-01"), day("1995-01-01"))
    items = table("lineitem").filter(expr=in_time).with_column("quantity", money("l_quantity"))
    sold = totals(items, ["l_partkey", "l_suppkey"], sold="quantity")
    offers = joined(table("partsupp"), parts, "ps_partkey", "p_partkey", "left_semi")
    offers = joined(offers, sold, ["ps_partkey", "ps_suppkey"], ["l_partkey", "l_suppkey"])
    offers = offers.filter(expr=col("ps_availqty").cast("float64") > col("sold") * 0.5)
    nations = table("nation").filter(expr=col("n_name") == "CANADA")
    suppliers = joined(table("supplier"), nations, "s_nationkey", "n_nationkey", "left_semi")
    rows = joined(suppliers, offers, "s_suppkey", "ps_suppkey", "left_semi")
    return rows.select_columns(["s_name", "s_address"]).sort("s_name")


def q21(table: Tables) -> Dataset:
    items = table("lineitem")
    late = items.filter(expr=col("l_receiptdate") > col("l_commitdate"))
    ends = [Min("l_suppkey", alias_name="first"), Max("l_suppkey", alias_name="last")]
    many = items.groupby("l_orderkey").aggregate(*ends).filter(expr=col("first") != col("last"))
    alone = late.groupby("l_orderkey").aggregate(*ends).filter(expr=col("first") == col("last"))
    nations = table("nation").filter(expr=col("n_name") == "SAUDI ARABIA")
    suppliers = joined(table("supplier"), nations, "s_nationkey", "n_nationkey", "left_semi")
    orders = table("orders").filter(expr=col("o_orderstatus") == "F")
    rows = joined(late, suppliers, "l_suppkey", "s_suppkey")
    rows = joined(rows, orders, "l_orderkey", "o_orderkey", "left_semi")
    rows = joined(rows, many, "l_orderkey", "l_orderkey", "left_semi")
    rows = joined(rows, alone, "l_orderkey", "l_orderkey", "left_semi")
    counts = rows.groupby("s_name").aggregate(Count(alias_name="numwait"))
    return counts.sort(["numwait", "s_name"], [True, False]).limit(100)


def q22(table: Tables) -> Dataset:
    codes = ["13", "31", "23", "29", "30", "18", "17"]
    customers = (
        table("customer")
        .with_columns({"cntrycode": col("c_phone").str.slice(0, 2), "balance": money("c_acctbal")})
        .filter(expr=col("cntrycode").is_in(codes))
    )
    mean = customers.filter(expr=col("balance") > 0.0).mean("balance")
    rich = customers.filter(expr=col("balance") > mean)
    rows = joined(rich, table("orders"), "c_custkey", "o_custkey", "left_anti")
    return (
        rows.groupby("cntrycode")
        .aggregate(Count(alias_name="numcust"), Sum("balance", alias_name="totacctbal"))
        .sort("cntrycode")
    )


QUERIES: dict[int, Query] = {number: globals()[f"q{number}"] for number in range(1, 23)}
