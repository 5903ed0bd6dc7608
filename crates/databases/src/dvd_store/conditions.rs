//! What holds of the shop whenever no transaction is under way. Prices never change, so that an order's total can be computed again.

use crate::conditions::Condition;

/// All conditions.
pub const CONDITIONS: [Condition; 14] = [
    Condition::new(1, "stock + units sold = units received, by product").counted_by(
        "select count(*) from inventory left join (select prod_id, sum(quantity) as sold from orderlines \
         where orderid > (select orders from opening) group by prod_id) l on l.prod_id = inventory.prod_id \
         where quan_in_stock + coalesce(sold, 0) <> received",
    ),
    Condition::new(2, "sales of a product = its units in order lines since the opening").counted_by(
        "select count(*) from inventory left join (select prod_id, sum(quantity) as sold from orderlines \
         where orderid > (select orders from opening) group by prod_id) l on l.prod_id = inventory.prod_id \
         where sales <> coalesce(sold, 0)",
    ),
    Condition::new(3, "no stock is negative").counted_by("select count(*) from inventory where quan_in_stock < 0"),
    Condition::new(4, "every order has its lines").counted_by(
        "select count(*) from orders left join (select orderid, count(*) as found from orderlines group by \
         orderid) l \
         on l.orderid = orders.orderid where line_count <> coalesce(found, 0)",
    ),
    Condition::new(5, "every line and every entry of the history has its order").counted_by(
        "select (select count(*) from orderlines left join orders on orders.orderid = orderlines.orderid \
         where orders.orderid is null) + (select count(*) from cust_hist left join orders \
         on orders.orderid = cust_hist.orderid and orders.customerid = cust_hist.customerid \
         where orders.orderid is null)",
    ),
    Condition::new(6, "netamount of an order = sum of price x quantity of its lines").counted_by(
        "select count(*) from orders left join (select orderid, sum(price * quantity) as amount from orderlines \
         join products on products.prod_id = orderlines.prod_id group by orderid) l on l.orderid = orders.orderid \
         where netamount <> coalesce(amount, 0)",
    ),
    Condition::new(7, "totalamount = netamount + tax")
        .counted_by("select count(*) from orders where totalamount <> netamount + tax"),
    Condition::new(8, "every line is in the history of its customer").counted_by(
        "select count(*) from orderlines join orders on orders.orderid = orderlines.orderid left join cust_hist h \
         on h.customerid = orders.customerid and h.orderid = orderlines.orderid and h.prod_id = orderlines.prod_id \
         where h.customerid is null",
    ),
    Condition::new(9, "the history has as many entries as there are lines")
        .counted_by("select abs((select count(*) from cust_hist) - (select count(*) from orderlines))"),
    Condition::new(10, "every order is of a customer").counted_by(
        "select count(*) from orders left join customers on customers.customerid = orders.customerid \
         where customers.customerid is null",
    ),
    Condition::new(11, "a product is listed for reorder just when its stock is below its mark").counted_by(
        "select (select count(*) from inventory left join reorder on reorder.prod_id = inventory.prod_id \
         where quan_in_stock < low_mark and reorder.prod_id is null) + (select count(*) from reorder \
         join inventory on inventory.prod_id = reorder.prod_id where quan_in_stock >= low_mark)",
    ),
    Condition::new(12, "a customer is a member just when there is a membership").counted_by(
        "select (select count(*) from customers left join membership on membership.customerid = \
         customers.customerid \
         where is_member <> case when membership.customerid is null then 0 else 1 end) + (select count(*) \
         from membership left join customers on customers.customerid = membership.customerid \
         where customers.customerid is null)",
    ),
    Condition::new(13, "every review is of a product and by a customer").counted_by(
        "select count(*) from reviews left join products on products.prod_id = reviews.prod_id left join customers \
         on customers.customerid = reviews.customerid where products.prod_id is null or customers.customerid is \
         null",
    ),
    Condition::new(14, "every rating is of a review").counted_by(
        "select count(*) from reviews_helpfulness h left join reviews on reviews.review_id = h.review_id \
         where reviews.review_id is null",
    ),
];
