//! The consistency conditions of rule 3.3.2, as queries that count what violates them.
//!
//! All twelve hold whenever no transaction is under way. The eleventh, which the rules state of a new database, is written
//! with the deliveries that customers have counted, so that it holds later too.

use crate::conditions::Condition;

/// The amounts of delivered lines by the customer of their order, and what customers have paid.
macro_rules! delivered {
    ($condition:literal) => {
        concat!(
            "select count(*) from customer left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as amount from orders \
             join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where ol_delivery_d is not null \
             group by o_w_id, o_d_id, o_c_id) l on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id \
             left join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from history \
             group by h_c_w_id, h_c_d_id, h_c_id) h on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id where ",
            $condition
        )
    };
}

/// All conditions.
pub const CONDITIONS: [Condition; 12] = [
    Condition::new(1, "w_ytd of a warehouse = sum of d_ytd of its districts").counted_by(
        "select count(*) from warehouse join (select d_w_id, sum(d_ytd) as ytd from district group by d_w_id) d \
         on d_w_id = w_id where w_ytd <> ytd",
    ),
    Condition::new(2, "d_next_o_id - 1 = largest o_id = largest no_o_id of a district").counted_by(
        "select count(*) from district left join (select o_w_id, o_d_id, max(o_id) as last_o from orders \
         group by o_w_id, o_d_id) o on o_w_id = d_w_id and o_d_id = d_id left join (select no_w_id, no_d_id, \
         max(no_o_id) as last_n from new_order group by no_w_id, no_d_id) n on no_w_id = d_w_id and no_d_id = d_id \
         where d_next_o_id - 1 <> coalesce(last_o, 0) or d_next_o_id - 1 <> coalesce(last_n, d_next_o_id - 1)",
    ),
    Condition::new(3, "the new orders of a district have no gap").counted_by(
        "select count(*) from (select max(no_o_id) - min(no_o_id) + 1 - count(*) as gap from new_order \
         group by no_w_id, no_d_id) n where gap <> 0",
    ),
    Condition::new(4, "sum of o_ol_cnt of a district = number of its order lines").counted_by(
        "select count(*) from (select o_w_id, o_d_id, sum(o_ol_cnt) as expected from orders group by o_w_id, \
         o_d_id) o \
         left join (select ol_w_id, ol_d_id, count(*) as found from order_line group by ol_w_id, ol_d_id) l \
         on ol_w_id = o_w_id and ol_d_id = o_d_id where expected <> coalesce(found, 0)",
    ),
    Condition::new(5, "an order has no carrier just when it is a new order").counted_by(
        "select count(*) from orders left join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = \
         o_id \
         where (o_carrier_id is null and no_o_id is null) or (o_carrier_id is not null and no_o_id is not null)",
    ),
    Condition::new(6, "o_ol_cnt of an order = number of its lines").counted_by(
        "select count(*) from orders left join (select ol_w_id, ol_d_id, ol_o_id, count(*) as found from order_line \
         group by ol_w_id, ol_d_id, ol_o_id) l on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
         where o_ol_cnt <> coalesce(found, 0)",
    ),
    Condition::new(7, "a line has no delivery date just when its order has no carrier").counted_by(
        "select count(*) from order_line left join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = \
         ol_o_id \
         where (ol_delivery_d is null and o_carrier_id is not null) \
         or (ol_delivery_d is not null and o_carrier_id is null)",
    ),
    Condition::new(8, "w_ytd of a warehouse = sum of h_amount of its history").counted_by(
        "select count(*) from warehouse left join (select h_w_id, sum(h_amount) as paid from history group by \
         h_w_id) h \
         on h_w_id = w_id where w_ytd <> coalesce(paid, 0)",
    ),
    Condition::new(9, "d_ytd of a district = sum of h_amount of its history").counted_by(
        "select count(*) from district left join (select h_w_id, h_d_id, sum(h_amount) as paid from history \
         group by h_w_id, h_d_id) h on h_w_id = d_w_id and h_d_id = d_id where d_ytd <> coalesce(paid, 0)",
    ),
    Condition::new(10, "c_balance = amounts of delivered lines - sum of h_amount of the customer")
        .counted_by(delivered!("c_balance <> coalesce(amount, 0) - coalesce(paid, 0)")),
    Condition::new(11, "orders - new orders of a district = 2100 + deliveries that its customers count").counted_by(
        "select count(*) from (select o_w_id, o_d_id, count(*) as entered from orders group by o_w_id, o_d_id) o \
         left join (select no_w_id, no_d_id, count(*) as fresh from new_order group by no_w_id, no_d_id) n \
         on no_w_id = o_w_id and no_d_id = o_d_id join (select c_w_id, c_d_id, sum(c_delivery_cnt) as delivered \
         from customer group by c_w_id, c_d_id) c on c_w_id = o_w_id and c_d_id = o_d_id \
         where entered - coalesce(fresh, 0) <> 2100 + delivered",
    ),
    Condition::new(12, "c_balance + c_ytd_payment = amounts of the customer's delivered lines")
        .counted_by(delivered!("c_balance + c_ytd_payment <> coalesce(amount, 0)")),
];
