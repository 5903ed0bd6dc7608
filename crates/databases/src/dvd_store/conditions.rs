//! What holds of the shop whenever no transaction is under way. Prices never change, so that an order's total can be computed again.

use crate::conditions::Condition;

/// All conditions.
pub const CONDITIONS: [Condition; 14] = [
    Condition {
        number: 1,
        what: "stock + units sold = units received, by product",
        violations: "select count(*) from inventory left join (select prod_id, sum(quantity) as sold from orderlines \
                     where orderid > (select orders from opening) group by prod_id) l on l.prod_id = inventory.prod_id \
                     where quan_in_stock + coalesce(sold, 0) <> received",
    },
    Condition {
        number: 2,
        what: "sales of a product = its units in order lines since the opening",
        violations: "select count(*) from inventory left join (select prod_id, sum(quantity) as sold from orderlines \
                     where orderid > (select orders from opening) group by prod_id) l on l.prod_id = inventory.prod_id \
                     where sales <> coalesce(sold, 0)",
    },
    Condition {
        number: 3,
        what: "no stock is negative",
        violations: "select count(*) from inventory where quan_in_stock < 0",
    },
    Condition {
        number: 4,
        what: "every order has its lines",
        violations: "select count(*) from orders left join (select orderid, count(*) as found from orderlines group by orderid) l \
                     on l.orderid = orders.orderid where line_count <> coalesce(found, 0)",
    },
    Condition {
        number: 5,
        what: "every line and every entry of the history has its order",
        violations: "select (select count(*) from orderlines left join orders on orders.orderid = orderlines.orderid \
                     where orders.orderid is null) + (select count(*) from cust_hist left join orders \
                     on orders.orderid = cust_hist.orderid and orders.customerid = cust_hist.customerid \
                     where orders.orderid is null)",
    },
    Condition {
        number: 6,
        what: "netamount of an order = sum of price x quantity of its lines",
        violations: "select count(*) from orders left join (select orderid, sum(price * quantity) as amount from orderlines \
                     join products on products.prod_id = orderlines.prod_id group by orderid) l on l.orderid = orders.orderid \
                     where netamount <> coalesce(amount, 0)",
    },
    Condition {
        number: 7,
        what: "totalamount = netamount + tax",
        violations: "select count(*) from orders where totalamount <> netamount + tax",
    },
    Condition {
        number: 8,
        what: "every line is in the history of its customer",
        violations: "select count(*) from orderlines join orders on orders.orderid = orderlines.orderid left join cust_hist h \
                     on h.customerid = orders.customerid and h.orderid = orderlines.orderid and h.prod_id = orderlines.prod_id \
                     where h.customerid is null",
    },
    Condition {
        number: 9,
        what: "the history has as many entries as there are lines",
        violations: "select abs((select count(*) from cust_hist) - (select count(*) from orderlines))",
    },
    Condition {
        number: 10,
        what: "every order is of a customer",
        violations: "select count(*) from orders left join customers on customers.customerid = orders.customerid \
                     where customers.customerid is null",
    },
    Condition {
        number: 11,
        what: "a product is listed for reorder just when its stock is below its mark",
        violations: "select (select count(*) from inventory left join reorder on reorder.prod_id = inventory.prod_id \
                     where quan_in_stock < low_mark and reorder.prod_id is null) + (select count(*) from reorder \
                     join inventory on inventory.prod_id = reorder.prod_id where quan_in_stock >= low_mark)",
    },
    Condition {
        number: 12,
        what: "a customer is a member just when there is a membership",
        violations: "select (select count(*) from customers left join membership on membership.customerid = customers.customerid \
                     where is_member <> case when membership.customerid is null then 0 else 1 end) + (select count(*) \
                     from membership left join customers on customers.customerid = membership.customerid \
                     where customers.customerid is null)",
    },
    Condition {
        number: 13,
        what: "every review is of a product and by a customer",
        violations: "select count(*) from reviews left join products on products.prod_id = reviews.prod_id left join customers \
                     on customers.customerid = reviews.customerid where products.prod_id is null or customers.customerid is null",
    },
    Condition {
        number: 14,
        what: "every rating is of a review",
        violations: "select count(*) from reviews_helpfulness h left join reviews on reviews.review_id = h.review_id \
                     where reviews.review_id is null",
    },
];
