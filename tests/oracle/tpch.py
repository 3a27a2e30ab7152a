"""The eight tables and 22 queries of TPC-H as views, and rows few and dense enough to matter."""

# ruff: noqa: E501 - columns of a table are one line

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]

TABLES = {
    "region": "r_regionkey INT, r_name STRING, r_comment STRING",
    "nation": "n_nationkey INT, n_name STRING, n_regionkey INT, n_comment STRING",
    "part": "p_partkey INT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING",
    "supplier": "s_suppkey INT, s_name STRING, s_address STRING, s_nationkey INT, s_phone STRING, s_acctbal DECIMAL(15,2), s_comment STRING",
    "partsupp": "ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost DECIMAL(15,2), ps_comment STRING",
    "customer": "c_custkey INT, c_name STRING, c_address STRING, c_nationkey INT, c_phone STRING, c_acctbal DECIMAL(15,2), c_mktsegment STRING, c_comment STRING",
    "orders": "o_orderkey INT, o_custkey INT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING",
    "lineitem": "l_orderkey INT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, l_comment STRING",
}

COLUMNS = {
    name: tuple(column.split()[0] for column in ddl.replace("(15,2)", "").split(","))
    for name, ddl in TABLES.items()
}

REVENUE = "l_extendedprice * (1 - l_discount)"

QUERIES = {
    "q01": f"""
        SELECT l_returnflag, l_linestatus,
               SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
               SUM({REVENUE}) AS sum_disc_price, SUM({REVENUE} * (1 + l_tax)) AS sum_charge,
               AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price,
               AVG(l_discount) AS avg_disc, COUNT(*) AS count_order
        FROM lineitem
        WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
        GROUP BY l_returnflag, l_linestatus
        ORDER BY l_returnflag, l_linestatus
    """,
    "q02": """
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM part, supplier, partsupp, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15
          AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey
          AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
          AND ps_supplycost = (
              SELECT MIN(ps_supplycost)
              FROM partsupp, supplier, nation, region
              WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
                AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
                AND r_name = 'EUROPE')
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
        LIMIT 100
    """,
    "q03": f"""
        SELECT l_orderkey, SUM({REVENUE}) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority
        ORDER BY revenue DESC, o_orderdate, l_orderkey
        LIMIT 10
    """,
    "q04": """
        SELECT o_orderpriority, COUNT(*) AS order_count
        FROM orders
        WHERE o_orderdate >= DATE '1993-07-01'
          AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
          AND EXISTS (
              SELECT * FROM lineitem
              WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority
        ORDER BY o_orderpriority
    """,
    "q05": f"""
        SELECT n_name, SUM({REVENUE}) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
          AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
          AND n_regionkey = r_regionkey AND r_name = 'ASIA'
          AND o_orderdate >= DATE '1994-01-01'
          AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
        GROUP BY n_name
        ORDER BY revenue DESC
    """,
    "q06": """
        SELECT SUM(l_extendedprice * l_discount) AS revenue
        FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01'
          AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
          AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24
    """,
    "q07": f"""
        SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue
        FROM (
            SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation,
                   EXTRACT(YEAR FROM l_shipdate) AS l_year, {REVENUE} AS volume
            FROM supplier, lineitem, orders, customer, nation n1, nation n2
            WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
              AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
              AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY')
                   OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
              AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
        GROUP BY supp_nation, cust_nation, l_year
        ORDER BY supp_nation, cust_nation, l_year
    """,
    "q08": f"""
        SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS mkt_share
        FROM (
            SELECT EXTRACT(YEAR FROM o_orderdate) AS o_year, {REVENUE} AS volume, n2.n_name AS nation
            FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
              AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey
              AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
              AND s_nationkey = n2.n_nationkey
              AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
              AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
        GROUP BY o_year
        ORDER BY o_year
    """,
    "q09": f"""
        SELECT nation, o_year, SUM(amount) AS sum_profit
        FROM (
            SELECT n_name AS nation, EXTRACT(YEAR FROM o_orderdate) AS o_year,
                   {REVENUE} - ps_supplycost * l_quantity AS amount
            FROM part, supplier, lineitem, partsupp, orders, nation
            WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
              AND p_partkey = l_partkey AND o_orderkey = l_orderkey
              AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
        GROUP BY nation, o_year
        ORDER BY nation, o_year DESC
    """,
    "q10": f"""
        SELECT c_custkey, c_name, SUM({REVENUE}) AS revenue, c_acctbal, n_name, c_address,
               c_phone, c_comment
        FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate >= DATE '1993-10-01'
          AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH
          AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        ORDER BY revenue DESC, c_custkey
        LIMIT 20
    """,
    "q11": """
        SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS value
        FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
        GROUP BY ps_partkey
        HAVING SUM(ps_supplycost * ps_availqty) > (
            SELECT SUM(ps_supplycost * ps_availqty) * 0.2
            FROM partsupp, supplier, nation
            WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')
        ORDER BY value DESC
    """,
    "q12": """
        SELECT l_shipmode,
               SUM(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high_line_count,
               SUM(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low_line_count
        FROM orders, lineitem
        WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
          AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
          AND l_receiptdate >= DATE '1994-01-01'
          AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
        GROUP BY l_shipmode
        ORDER BY l_shipmode
    """,
    "q13": """
        SELECT c_count, COUNT(*) AS custdist
        FROM (
            SELECT c_custkey, COUNT(o_orderkey)
            FROM customer LEFT OUTER JOIN orders
              ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
            GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
        GROUP BY c_count
        ORDER BY custdist DESC, c_count DESC
    """,
    "q14": f"""
        SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN {REVENUE} ELSE 0 END)
               / SUM({REVENUE}) AS promo_revenue
        FROM lineitem, part
        WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01'
          AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH
    """,
    "q15": f"""
        WITH revenue (supplier_no, total_revenue) AS (
            SELECT l_suppkey, SUM({REVENUE})
            FROM lineitem
            WHERE l_shipdate >= DATE '1996-01-01'
              AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH
            GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, s_address, s_phone, total_revenue
        FROM supplier, revenue
        WHERE s_suppkey = supplier_no
          AND total_revenue = (SELECT MAX(total_revenue) FROM revenue)
        ORDER BY s_suppkey
    """,
    "q16": """
        SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt
        FROM partsupp, part
        WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45'
          AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 15)
          AND ps_suppkey NOT IN (
              SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size
        ORDER BY supplier_cnt DESC, p_brand, p_type, p_size
    """,
    "q17": """
        SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly
        FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
          AND l_quantity < (
              SELECT 0.8 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
    """,
    "q18": """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity) AS quantity
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (
              SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 60)
          AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate, o_orderkey
        LIMIT 100
    """,
    "q19": f"""
        SELECT SUM({REVENUE}) AS revenue
        FROM lineitem, part
        WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12'
               AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
               AND l_quantity >= 1 AND l_quantity <= 1 + 10 AND p_size BETWEEN 1 AND 5
               AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
           OR (p_partkey = l_partkey AND p_brand = 'Brand#23'
               AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
               AND l_quantity >= 10 AND l_quantity <= 10 + 10 AND p_size BETWEEN 1 AND 15
               AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
           OR (p_partkey = l_partkey AND p_brand = 'Brand#34'
               AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
               AND l_quantity >= 20 AND l_quantity <= 20 + 10 AND p_size BETWEEN 1 AND 15
               AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
    """,
    "q20": """
        SELECT s_name, s_address
        FROM supplier, nation
        WHERE s_suppkey IN (
              SELECT ps_suppkey FROM partsupp
              WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
                AND ps_availqty > (
                    SELECT 0.5 * SUM(l_quantity) FROM lineitem
                    WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                      AND l_shipdate >= DATE '1994-01-01'
                      AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR))
          AND s_nationkey = n_nationkey AND n_name = 'FRANCE'
        ORDER BY s_name
    """,
    "q21": """
        SELECT s_name, COUNT(*) AS numwait
        FROM supplier, lineitem l1, orders, nation
        WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
          AND l1.l_receiptdate > l1.l_commitdate
          AND EXISTS (
              SELECT * FROM lineitem l2
              WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
          AND NOT EXISTS (
              SELECT * FROM lineitem l3
              WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
                AND l3.l_receiptdate > l3.l_commitdate)
          AND s_nationkey = n_nationkey AND n_name = 'FRANCE'
        GROUP BY s_name
        ORDER BY numwait DESC, s_name
        LIMIT 100
    """,
    "q22": """
        SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal
        FROM (
            SELECT SUBSTRING(c_phone, 1, 2) AS cntrycode, c_acctbal
            FROM customer
            WHERE SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
              AND c_acctbal > (
                  SELECT AVG(c_acctbal) FROM customer
                  WHERE c_acctbal > 0.00
                    AND SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
              AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
        GROUP BY cntrycode
        ORDER BY cntrycode
    """,
}

_DATES = [date(1993, 7, 9), date(1993, 10, 20), date(1994, 3, 3), date(1994, 11, 5)]
_DATES += [date(1995, 3, 1), date(1995, 4, 2), date(1995, 9, 9), date(1996, 2, 7)]


def _money(chance: random.Random, top: int) -> Decimal:
    return Decimal(chance.randint(-100, top * 100)) / 100


def _near(chance: random.Random, day: date) -> date:
    return day + timedelta(days=chance.randint(0, 40))


def _part(c: random.Random) -> Row:
    names = ("forest green", "forest tan", "green lace", "blue tan")
    types = ("ECONOMY ANODIZED STEEL", "PROMO BRASS", "LARGE BRASS", "MEDIUM POLISHED TIN")
    key = c.randint(1, 5)
    return (
        key, c.choice(names), f"Mfr#{key}", c.choice(("Brand#23", "Brand#12", "Brand#34", "Brand#45")),
        c.choice(types), c.choice((3, 14, 15)), c.choice(("MED BOX", "SM CASE", "LG PKG")),
        _money(c, 900), "",
    )  # fmt: skip


def _supplier(c: random.Random) -> Row:
    key = c.randint(1, 5)
    comment = c.choice(("", "", "Customer odd Complaints"))
    return (
        key,
        f"S{key}",
        f"street {key}",
        c.choice((0, 0, 0, 1, 2, 3, 4)),
        f"1{key}-1",
        _money(c, 99),
        comment,
    )


def _partsupp(c: random.Random) -> Row:
    return c.randint(1, 5), c.randint(1, 5), c.randint(1, 60), _money(c, 50), ""


def _customer(c: random.Random) -> Row:
    key = c.randint(1, 6)
    segment = c.choice(("BUILDING", "MACHINERY"))
    phone = c.choice(("13-1", "31-2", "99-3"))
    return key, f"C{key}", f"road {key}", c.randint(0, 4), phone, _money(c, 900), segment, ""


def _orders(c: random.Random) -> Row:
    comment = c.choice(("", "special odd requests"))
    priority = c.choice(("1-URGENT", "2-HIGH", "5-LOW"))
    day = _near(c, c.choice(_DATES))
    return (
        c.randint(1, 8),
        c.randint(1, 6),
        c.choice("FO"),
        _money(c, 999),
        day,
        priority,
        "",
        0,
        comment,
    )


def _lineitem(c: random.Random) -> Row:
    ship = _near(c, c.choice(_DATES))
    return (
        c.randint(1, 12), c.randint(1, 5), c.randint(1, 5), c.randint(1, 3),
        Decimal(c.randint(1, 45)), _money(c, 900), Decimal(c.randint(4, 8)) / 100, Decimal("0.02"),
        c.choice("RN"), c.choice("FO"), ship, _near(c, ship + timedelta(days=15)), _near(c, ship),
        c.choice(("DELIVER IN PERSON", "NONE")), c.choice(("AIR", "MAIL", "SHIP")), "",
    )  # fmt: skip


_NATIONS = ("FRANCE", "GERMANY", "BRAZIL", "JAPAN", "INDIA")
_REGIONS = ("EUROPE", "EUROPE", "AMERICA", "ASIA", "ASIA")

WRITTEN: dict[str, list[Row]] = {
    "nation": [(key, name, key, "") for key, name in enumerate(_NATIONS)],
    "region": [(key, name, "") for key, name in enumerate(_REGIONS)],
}

MADE: dict[str, Callable[[random.Random], Row]] = {
    "part": _part,
    "supplier": _supplier,
    "partsupp": _partsupp,
    "customer": _customer,
    "orders": _orders,
    "lineitem": _lineitem,
}

SIZES = {"part": 8, "supplier": 8, "partsupp": 30, "customer": 10, "orders": 20, "lineitem": 60}
